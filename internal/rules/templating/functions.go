package templating

import (
	"errors"
	"fmt"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
)

// maxElements is how many elements a function may make out of a number. Templates
// run in the process that serves all clusters.
const maxElements = 1 << 20

// ErrTooManyElements means that a function of a template was asked for more than it may make.
var ErrTooManyElements = errors.New("too many elements")

// functions are sprig's, without those that look at the process or the network,
// and with a limit where a number turns into memory. What they do is taken from w.
func functions(w *work) template.FuncMap {
	out := sprig.TxtFuncMap()
	for _, name := range []string{"env", "expandenv", "include", "tpl", "getHostByName"} {
		delete(out, name)
	}
	for name, function := range out {
		out[name] = w.charged(name, bounded(name, function))
	}
	// These are the templates' own; what they write into a variable may double at each turn.
	out["print"] = w.charged("print", fmt.Sprint)
	out["println"] = w.charged("println", fmt.Sprintln)
	out["printf"] = w.charged("printf", fmt.Sprintf)
	out["html"] = w.charged("html", template.HTMLEscaper)
	out["js"] = w.charged("js", template.JSEscaper)
	out["urlquery"] = w.charged("urlquery", template.URLQueryEscaper)
	out[turnFunction] = w.turn
	return out
}

// bounded puts a limit before a function that needs one; the others stay as they are.
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

// growsWith says whether the function really writes that much: indent does so for
// each line only, and some functions cut a text at that length.
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
