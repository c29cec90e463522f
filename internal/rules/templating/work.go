package templating

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"text/template"
	"text/template/parse"
)

// Prices and limits of the templates of one cluster, in bytes read or written. Values are at most 1 MiB, so useful
// templates need a small part of maxWork, and an endless loop uses it up within about a second. Work is counted
// instead of time, so that the same input gives the same result on every machine.
const (
	maxWork = 32 << 20
	// turnPrice is charged for each iteration of a loop, in addition to the length of its body.
	turnPrice = 256
	// templatePrice is charged for each template call. Calls may be nested, and each uses stack space.
	templatePrice = 4096
	// callPrice is charged for each function call, in addition to its arguments and its result.
	callPrice = 64
	// itemPrice is charged for each item of a list or map that is visited.
	itemPrice = 32
	// maxNesting limits how deep lists and maps may be nested. It stops at values that contain themselves.
	maxNesting = 1000
	// maxActions limits the number of actions in a template, and maxBlocks limits how deep blocks may be nested.
	// Parsing uses stack space for each of them.
	maxActions = 10_000
	maxBlocks  = 100
)

// turnFunction is the function whose call is inserted into each loop.
const turnFunction = "fleetTurn"

// ErrTooMuchWork means that templates do more work than a useful template needs, such as an endless loop.
var ErrTooMuchWork = errors.New("the templates do too much work")

// work is the remaining work for the templates of one cluster.
type work struct{ left int }

func (w *work) spend(price int) error {
	if w.left -= max(price, 0); w.left < 0 { // templates choose the lengths: a negative one must not add work
		return ErrTooMuchWork
	}
	return nil
}

// turn implements turnFunction. It charges the price and writes nothing.
func (w *work) turn(price int) (string, error) { return "", w.spend(price) }

// charged wraps a function so that its arguments and its result are charged.
func (w *work) charged(name string, function any) any {
	f := reflect.ValueOf(function)
	kind := f.Type()
	var in []reflect.Type
	for i := range kind.NumIn() {
		in = append(in, kind.In(i))
	}
	out := []reflect.Type{kind.Out(0), reflect.TypeFor[error]()}
	return reflect.MakeFunc(reflect.FuncOf(in, out, kind.IsVariadic()), func(arguments []reflect.Value) []reflect.Value {
		if err := w.spend(priceOf(name, arguments)); err != nil {
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

// priceOf returns the price of one call. Functions that create keys or stretch passwords are slow.
func priceOf(name string, arguments []reflect.Value) int {
	switch name {
	case "genPrivateKey":
		if arguments[0].String() == "rsa" { // with 4096 bits: more than a second
			return maxWork / 2
		}
		return maxWork / 8
	case "genCA", "genSelfSignedCert", "genSignedCert": // RSA with 2048 bits
		return maxWork / 4
	case "genCAWithKey", "genSelfSignedCertWithKey", "genSignedCertWithKey", "derivePassword", "bcrypt", "htpasswd":
		return maxWork / 8
	default:
		return callPrice
	}
}

// weigh charges for the size of a value. A part that occurs several times counts each time, because it would be
// written each time, indented by its depth. A text that is longer than a template may write is refused.
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

// countTurns inserts a call of turnFunction at the beginning of every loop and of every template, because templates
// may call themselves.
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

// countIn inserts the calls into the loops of a list of nodes.
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

// count inserts a call at the beginning of a list of nodes. The call charges a price plus the length of the list.
func count(list *parse.ListNode, functions template.FuncMap, price int) error {
	text := fmt.Sprintf("${%s %d}", turnFunction, price+len(list.String()))
	call, err := template.New(turnFunction).Delims("${", "}").Funcs(functions).Parse(text)
	if err != nil {
		return err
	}
	list.Nodes = slices.Insert(list.Nodes, 0, call.Root.Nodes...)
	return nil
}
