package templating

import (
	"errors"
	"fmt"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
)

// maxElements limits how many elements a function may create from a number, because templates run in the process that
// serves all clusters.
const maxElements = 1 << 20

// ErrTooManyElements means that a template function was called with a number above its limit.
var ErrTooManyElements = errors.New("too many elements")

// functions returns the functions of sprig, except for those that access the process or the network. Functions that
// turn a number into memory are limited. Every call is charged to w.
func functions(w *work) template.FuncMap {
	out := sprig.TxtFuncMap()
	for _, name := range []string{"env", "expandenv", "include", "tpl", "getHostByName"} {
		delete(out, name)
	}
	for name, function := range out {
		out[name] = w.charged(name, bounded(name, function))
	}
	// Built-in functions of text/template. Their output in a variable may double with each loop iteration.
	out["print"] = w.charged("print", fmt.Sprint)
	out["println"] = w.charged("println", fmt.Sprintln)
	out["printf"] = w.charged("printf", fmt.Sprintf)
	out["html"] = w.charged("html", template.HTMLEscaper)
	out["js"] = w.charged("js", template.JSEscaper)
	out["urlquery"] = w.charged("urlquery", template.URLQueryEscaper)
	out[turnFunction] = w.turn
	return out
}

// bounded adds a limit to a function that needs one, and returns other functions unchanged.
func bounded(name string, function any) any {
	switch f := function.(type) {
	case func(int) []int: // until
		return func(n int) ([]int, error) { return guarded(name, func() []int { return f(n) }, n) }
	case func(int) string: // randAlphaNum and its like
		return func(n int) (string, error) { return guarded(name, func() string { return f(n) }, n) }
	case func(int) (string, error): // randBytes
		return func(n int) (string, error) {
			if err := tooMany(name, n); err != nil {
				return "", err
			}
			return f(n)
		}
	case func(int, int, int) []int: // untilStep
		return func(start, stop, step int) ([]int, error) {
			return guarded(name, func() []int { return f(start, stop, step) }, start, stop)
		}
	case func(...int) string: // seq
		return func(params ...int) (string, error) {
			return guarded(name, func() string { return f(params...) }, params...)
		}
	case func(int, string) string: // repeat, indent and its like
		return func(n int, text string) (string, error) {
			if n > 0 && n > maxRendered/max(1, len(text)) && growsWith(name, n, text) {
				return "", fmt.Errorf("%s %d: %w", name, n, ErrTooManyElements)
			}
			return f(n, text), nil
		}
	default:
		return function
	}
}

// growsWith reports whether the output of the function really grows by that much: indent grows with each line only,
// and some functions truncate a text to that length.
func growsWith(name string, n int, text string) bool {
	switch name {
	case "repeat":
		return true
	case "indent", "nindent":
		return n > maxRendered/(1+strings.Count(text, "\n"))
	default:
		return false
	}
}

func guarded[T any](name string, call func() T, numbers ...int) (T, error) {
	if err := tooMany(name, numbers...); err != nil {
		var none T
		return none, err
	}
	return call(), nil
}

func tooMany(name string, numbers ...int) error {
	for _, n := range numbers {
		if n > maxElements || n < -maxElements {
			return fmt.Errorf("%s %d: %w", name, n, ErrTooManyElements)
		}
	}
	return nil
}
