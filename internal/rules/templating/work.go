package templating

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"text/template"
	"text/template/parse"
)

// What the templates of one cluster may cost together, in bytes looked at or made. Values are at most 1 MiB, so
// templates that are of use need a small part of it; one that never ends has it spent within a second or so. It counts
// work and not time, for the same input to give the same result wherever it runs.
const (
	maxWork = 32 << 20
	// turnPrice is for going once through a loop, besides the length of what is in it.
	turnPrice = 256
	// templatePrice is for going into a template, which may go into others: each takes room on the stack.
	templatePrice = 4096
	// callPrice is for calling a function, besides what it is given and gives.
	callPrice = 64
	// itemPrice is for each item of a list or map that is looked at.
	itemPrice = 32
	// slowPrice is for functions that are made to be slow.
	slowPrice = maxWork / 8
	// maxNesting is how deep lists and maps may be nested in one another. One that is in itself has no end.
	maxNesting = 1000
	// maxActions is how many actions a template may have, and maxBlocks how deep those that hold others may be nested.
	// Parsing takes room on the stack for each.
	maxActions = 10_000
	maxBlocks  = 100
)

// turnFunction is what templates call, unasked, at each turn of a loop.
const turnFunction = "fleetTurn"

// ErrTooMuchWork means that templates do more than can be of use, such as a loop that never ends.
var ErrTooMuchWork = errors.New("the templates do too much work")

// work is what is left of the templates' work for one cluster.
type work struct{ left int }

func (w *work) spend(price int) error {
	if w.left -= price; w.left < 0 {
		return ErrTooMuchWork
	}
	return nil
}

// turn is turnFunction: it writes nothing. It is given what a turn costs.
func (w *work) turn(price int) (string, error) { return "", w.spend(price) }

// charged makes a function cost what it takes and gives.
func (w *work) charged(name string, function any) any {
	f := reflect.ValueOf(function)
	kind := f.Type()
	var in []reflect.Type
	for i := range kind.NumIn() {
		in = append(in, kind.In(i))
	}
	out := []reflect.Type{kind.Out(0), reflect.TypeFor[error]()}
	price := callPrice
	if isSlow(name) {
		price = slowPrice
	}
	return reflect.MakeFunc(reflect.FuncOf(in, out, kind.IsVariadic()), func(arguments []reflect.Value) []reflect.Value {
		if err := w.spend(price); err != nil {
			return failed(kind.Out(0), name, err)
		}
		for _, argument := range arguments {
			if err := w.weigh(argument, 0); err != nil {
				return failed(kind.Out(0), name, err)
			}
		}
		if err := w.foresee(name, arguments); err != nil {
			return failed(kind.Out(0), name, err)
		}
		call := f.Call
		if kind.IsVariadic() {
			call = f.CallSlice
		}
		results := call(arguments)
		if len(results) == 1 {
			results = append(results, reflect.Zero(out[1]))
		}
		if err := w.weigh(results[0], 0); err != nil {
			return failed(kind.Out(0), name, err)
		}
		return results
	}).Interface()
}

func failed(result reflect.Type, name string, err error) []reflect.Value {
	err = fmt.Errorf("%s: %w", name, err)
	return []reflect.Value{reflect.Zero(result), reflect.ValueOf(&err).Elem()}
}

// isSlow says whether a function makes keys or stretches passwords.
func isSlow(name string) bool {
	switch name {
	case "genPrivateKey", "genCA", "genCAWithKey", "genSelfSignedCert", "genSelfSignedCertWithKey", "genSignedCert",
		"genSignedCertWithKey", "derivePassword", "bcrypt", "htpasswd":
		return true
	}
	return false
}

// weigh spends what a value is made of. What is in it several times counts each time: it would be written as often, and
// indented as deep as it is nested. A text that is longer than what a template may write is refused.
func (w *work) weigh(value reflect.Value, depth int) error {
	if depth > maxNesting {
		return ErrTooMuchWork
	}
	switch value.Kind() {
	case reflect.String:
		if value.Len() > maxRendered {
			return ErrTooMuchWork
		}
		return w.spend(itemPrice + 2*depth + value.Len())
	case reflect.Interface, reflect.Pointer:
		return w.weigh(value.Elem(), depth+1)
	case reflect.Slice, reflect.Array:
		if isPlain(value.Type().Elem().Kind()) {
			return w.spend(itemPrice + 8*value.Len())
		}
		for i := range value.Len() {
			if err := w.weigh(value.Index(i), depth+1); err != nil {
				return err
			}
		}
	case reflect.Map:
		for entries := value.MapRange(); entries.Next(); {
			if err := errors.Join(w.weigh(entries.Key(), depth+1), w.weigh(entries.Value(), depth+1)); err != nil {
				return err
			}
		}
	default:
	}
	return w.spend(itemPrice + 2*depth)
}

func isPlain(kind reflect.Kind) bool { return kind >= reflect.Bool && kind <= reflect.Complex128 }

// countTurns puts a call of turnFunction at the beginning of every loop and of every template, which may call itself.
func countTurns(parsed *template.Template, functions template.FuncMap) error {
	for _, each := range parsed.Templates() {
		if each.Tree == nil || each.Root == nil {
			continue
		}
		if err := countIn(each.Root, functions, 0); err != nil {
			return err
		}
		if err := count(each.Root, functions, templatePrice); err != nil {
			return err
		}
	}
	return nil
}

// countIn looks for loops.
func countIn(list *parse.ListNode, functions template.FuncMap, depth int) error {
	if list == nil {
		return nil
	}
	if depth > maxBlocks {
		return fmt.Errorf("%w: its blocks are nested more than %d levels deep", ErrTooMuchWork, maxBlocks)
	}
	for _, node := range list.Nodes {
		var branch *parse.BranchNode
		switch node := node.(type) {
		case *parse.IfNode:
			branch = &node.BranchNode
		case *parse.WithNode:
			branch = &node.BranchNode
		case *parse.RangeNode:
			branch = &node.BranchNode
		default:
			continue
		}
		if err := errors.Join(countIn(branch.List, functions, depth+1), countIn(branch.ElseList, functions, depth+1)); err != nil {
			return err
		}
		if branch.Type() != parse.NodeRange {
			continue
		}
		if err := count(branch.List, functions, turnPrice); err != nil {
			return err
		}
	}
	return nil
}

// count has each turn counted of what is in the list: a price, and its length.
func count(list *parse.ListNode, functions template.FuncMap, price int) error {
	text := fmt.Sprintf("${%s %d}", turnFunction, price+len(list.String()))
	call, err := template.New(turnFunction).Delims("${", "}").Funcs(functions).Parse(text)
	if err != nil {
		return err
	}
	list.Nodes = slices.Insert(list.Nodes, 0, call.Root.Nodes...)
	return nil
}
