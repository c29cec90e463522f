package templating

import (
	"fmt"
	"reflect"
	"regexp"
	"regexp/syntax"
	"strings"
)

// maxExpression limits the number of instructions of a regular expression.
const maxExpression = 50_000

// foresee charges w for functions whose work or output is much larger than their input. It also refuses results that
// are longer than a template may write. It runs before the function is called.
func (w *work) foresee(name string, arguments []reflect.Value) error {
	switch name = strings.ToLower(strings.TrimPrefix(name, "must")); name {
	case "replace": // old, new, text
		text := arguments[2].String()
		return w.grow(name, len(text)+strings.Count(text, arguments[0].String())*len(arguments[1].String()))
	case "join": // separator, list
		return w.grow(name, arguments[0].Len()*lengthOf(arguments[1]))
	case "wrapwith": // width, separator, text
		text := arguments[2].String()
		breaks := len(text)/max(1, int(arguments[0].Int())) + strings.Count(text, " ") + strings.Count(text, "\n") + 1
		return w.grow(name, len(text)+breaks*arguments[1].Len())
	case "printf": // format, arguments
		return w.grow(name, widths(arguments[0].String(), arguments[1]))
	case "split", "splitlist": // separator, text; the former makes a map
		parts := 1 + strings.Count(arguments[1].String(), arguments[0].String())
		return w.spend(4 * itemPrice * parts)
	case "splitn": // separator, number, text
		return w.spend(4 * itemPrice * (1 + strings.Count(arguments[2].String(), arguments[0].String())))
	case "fromjson":
		text := arguments[0].String()
		return w.spend(itemPrice * (strings.Count(text, ",") + strings.Count(text, "[") + 8*strings.Count(text, "{")))
	case "tojson", "toprettyjson", "torawjson", "quote", "squote", "html", "js", "urlquery": // one character may become six
		return w.weighAll(arguments, 5)
	case "uniq", "without", "randalphanum", "randalpha", "randnumeric", "randascii", "mulf", "divf":
		return w.foreseeProduct(name, arguments)
	}
	if strings.HasPrefix(name, "regex") && name != "regexquotemeta" {
		return w.match(name, arguments)
	}
	return nil
}

// foreseeProduct charges for functions whose work grows with the product of two lengths.
func (w *work) foreseeProduct(name string, arguments []reflect.Value) error {
	switch name {
	case "uniq": // compares each item with each other item
		n := lengthOf(arguments[0])
		return w.spendProduct(n, n)
	case "without":
		return w.spendProduct(lengthOf(arguments[0]), lengthOf(arguments[1]))
	case "randalphanum", "randalpha", "randnumeric", "randascii": // one request for random bytes for each character
		return w.spendProduct(itemPrice, min(int(arguments[0].Int()), maxElements/2)) // the function itself refuses more
	default: // mulf and divf compute exact numbers, which become longer with each step
		n := lengthOf(arguments[len(arguments)-1])
		return w.spendProduct(n, n)
	}
}

// match charges for a regular expression: its size times the length of the text.
func (w *work) match(name string, arguments []reflect.Value) error {
	expression, text := arguments[0].String(), arguments[1].String()
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return nil //nolint:nilerr // the function itself returns the error
	}
	size := instructions(parsed)
	if size > maxExpression {
		return fmt.Errorf("%s: %w: the regular expression", name, ErrTooManyElements)
	}
	if err := w.spendProduct(size, itemPrice+len(text)/2); err != nil {
		return err
	}
	switch name {
	case "regexreplaceall", "regexreplaceallliteral":
		return w.replace(name, expression, text, arguments[2].String())
	case "regexfindall", "regexsplit":
		return w.spend(len(text) * 8)
	}
	return nil
}

// replace refuses a replacement that makes a text too long. It counts the matches only if that is possible.
func (w *work) replace(name, expression, text, replacement string) error {
	references := len(text) * strings.Count(replacement, "$")
	if len(text)+(1+len(text))*len(replacement)+references <= maxRendered {
		return nil
	}
	most := maxRendered / max(1, len(replacement))
	if err := w.spend(itemPrice * min(most, len(text))); err != nil {
		return err
	}
	compiled, err := regexp.Compile(expression)
	if err != nil {
		return nil //nolint:nilerr // the function itself returns the error
	}
	return w.grow(name, len(text)+references+len(compiled.FindAllStringIndex(text, most+1))*len(replacement))
}

// instructions estimates the number of instructions that a regular expression compiles to.
func instructions(r *syntax.Regexp) int {
	sum := 1 + len(r.Rune)/2
	for _, sub := range r.Sub {
		sum = min(sum+instructions(sub), maxExpression+1)
	}
	if r.Op == syntax.OpRepeat {
		sum = min(sum*max(1, r.Min, r.Max), maxExpression+1)
	}
	return sum
}

// widths returns an upper estimate of the bytes that the widths in a format string add.
func widths(format string, arguments reflect.Value) int {
	largest := 0
	for i := range arguments.Len() {
		if value := reflect.Indirect(arguments.Index(i).Elem()); value.IsValid() && value.CanInt() {
			largest = max(largest, int(min(max(value.Int(), -value.Int()), 1_000_000)))
		}
	}
	sum, number := strings.Count(format, "%[")*weightOf(arguments), 0 // these verbs may use the same argument several times
	for _, c := range format {
		switch {
		case c >= '0' && c <= '9':
			number = min(number*10+int(c-'0'), 1_000_000)
			continue
		case c == '*':
			sum = min(sum+largest, 1<<40)
		}
		sum, number = min(sum+number, 1<<40), 0
	}
	return sum + number
}

// weightOf returns the weight of a value, up to maxWork.
func weightOf(value reflect.Value) int {
	scales := work{left: maxWork}
	_ = scales.weigh(value, 0) // a value that is too heavy weighs maxWork
	return maxWork - max(0, scales.left)
}

// grow returns an error if a result of that length is too long.
func (w *work) grow(name string, length int) error {
	if length > maxRendered {
		return fmt.Errorf("%s: %w", name, ErrTooManyElements)
	}
	return nil
}

// spendProduct spends a times b without overflow.
func (w *work) spendProduct(a, b int) error {
	if a > 0 && b > maxWork/a {
		return ErrTooMuchWork
	}
	return w.spend(a * b)
}

func (w *work) weighAll(arguments []reflect.Value, times int) error {
	for _, argument := range arguments {
		for range times {
			if err := w.weigh(argument, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// lengthOf returns the number of items in a list, or 0 if the value is not a list.
func lengthOf(list reflect.Value) int {
	for list.Kind() == reflect.Interface || list.Kind() == reflect.Pointer {
		list = list.Elem()
	}
	if list.Kind() != reflect.Slice && list.Kind() != reflect.Array {
		return 0
	}
	return list.Len()
}
