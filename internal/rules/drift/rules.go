package drift

import (
	"errors"
	"fmt"
	"path"
	"reflect"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const (
	// opIgnore allows an object to be missing.
	opIgnore = "ignore"
	opRemove = "remove"
)

// maxShared limits what rules cost for each object that they do not name: the JSON pointers of rules for several objects,
// and the instructions of all regular expressions for names.
const maxShared = 20_000

// ErrTooManyRules means that too many rules of a bundle are for several objects.
var ErrTooManyRules = errors.New("diff.comparePatches: too many jsonPointers in patches without an exact name and namespace, or too many or too " +
	"long regular expressions for names; set the name and the namespace of each object, or remove patches")

// Rules say which differences a bundle ignores. The zero value ignores none. Rules are found by what they name, so that
// an object does not cost more if there are more rules for other objects.
type Rules struct {
	patches []fleet.ComparePatch
	// edits are the changes that the rules make, in the order of the rules.
	edits []edit
	// pointers and operations are the edits for plain kinds and names, as indexes into edits. patterns are the other
	// ones, by group.
	pointers, operations map[target][]int
	patterns             map[string][]int
	missing              map[target]*missing
	// shared is the cost for each object, see maxShared.
	shared int
	// mistake describes the first invalid part of a rule, or is empty.
	mistake string
}

// target is what a rule names. Empty means any namespace, or any name.
type target struct{ group, kind, namespace, name string }

// edit is what a rule changes in an object.
type edit struct {
	operations []fleet.Operation
	// byPattern means that the edit applies to the objects that match kind, namespace and name. All others are in an index.
	byPattern       bool
	kind, namespace string
	name            pattern
}

// RulesOf returns the rules in a bundle's options. options may be nil.
func RulesOf(options *fleet.DiffOptions) Rules {
	if options == nil {
		return Rules{}
	}
	r := Rules{
		patches: options.ComparePatches, pointers: map[target][]int{}, operations: map[target][]int{},
		patterns: map[string][]int{}, missing: map[target]*missing{},
	}
	for _, rule := range options.ComparePatches {
		r.addPointers(rule)
		r.addOperations(rule)
		if r.Err() != nil {
			break
		}
	}
	return r
}

// AreOf reports whether the rules are those of the options. options may be nil.
func (r Rules) AreOf(options *fleet.DiffOptions) bool {
	if options == nil {
		return r.patches == nil
	}
	return reflect.DeepEqual(r.patches, options.ComparePatches)
}

// Err returns ErrTooManyRules, or nil. The rules are incomplete after an error.
func (r Rules) Err() error {
	if r.shared > maxShared {
		return ErrTooManyRules
	}
	return nil
}

// Mistake describes the first invalid part of a rule. It returns "" if all rules are valid.
func (r Rules) Mistake() string { return r.mistake }

// report records the first mistake: the problem of a part with this text.
func (r *Rules) report(part, text, problem string) {
	if r.mistake == "" {
		r.mistake = fmt.Sprintf("diff.comparePatches: %s %.80q %s: correct or remove it", part, text, problem)
	}
}

// checkPointer reports an invalid JSON pointer.
func (r *Rules) checkPointer(pointer string) {
	if !strings.HasPrefix(pointer, "/") {
		r.report("JSON pointer", pointer, "does not begin with /")
	}
}

// addPointers adds the removal of values at JSON pointers. It applies to every version of the rule's group, to kinds
// matched with wildcards, and to all namespaces and names unless the rule sets them; the name may be a regular expression.
func (r *Rules) addPointers(rule fleet.ComparePatch) {
	if len(rule.JSONPointers) == 0 {
		return
	}
	gv, err := schema.ParseGroupVersion(rule.APIVersion)
	if err != nil {
		r.report("apiVersion", rule.APIVersion, "is not of the form group/version")
		return
	}
	made := edit{operations: make([]fleet.Operation, 0, len(rule.JSONPointers))}
	for _, pointer := range rule.JSONPointers {
		r.checkPointer(pointer)
		made.operations = append(made.operations, fleet.Operation{Op: opRemove, Path: pointer})
	}
	at := len(r.edits)
	if isPlainKind(rule.Kind) && isPlainName(rule.Name) {
		key := target{gv.Group, rule.Kind, rule.Namespace, rule.Name}
		r.pointers[key] = append(r.pointers[key], at)
	} else {
		made.byPattern, made.kind, made.namespace = true, rule.Kind, rule.Namespace
		made.name = r.pattern(rule.Name, "^(?:"+rule.Name+")$")
		if _, err := path.Match(rule.Kind, ""); err != nil {
			r.report("kind", rule.Kind, "is not a valid pattern")
		}
		r.shared += len(rule.Kind)
		r.patterns[gv.Group] = append(r.patterns[gv.Group], at)
	}
	if made.byPattern || rule.Namespace == "" || rule.Name == "" {
		r.shared += len(rule.JSONPointers)
	}
	r.edits = append(r.edits, made)
}

// addOperations adds the operations of a rule. They apply only to the object with the rule's API version, kind, namespace
// and name.
func (r *Rules) addOperations(rule fleet.ComparePatch) {
	var made edit
	for _, operation := range rule.Operations {
		switch operation.Op {
		case opIgnore:
			r.addMissing(rule)
			continue
		case opAdd, opRemove, opReplace:
			r.checkPointer(operation.Path)
		default:
			r.report("operation", operation.Op, "is not add, remove, replace or ignore")
		}
		made.operations = append(made.operations, operation)
	}
	if len(made.operations) > 0 {
		key := target{rule.APIVersion, rule.Kind, rule.Namespace, rule.Name}
		r.operations[key] = append(r.operations[key], len(r.edits))
		r.edits = append(r.edits, made)
	}
}

func isPlainKind(kind string) bool { return !strings.ContainsAny(kind, `*?[\`) }

func isPlainName(name string) bool { return regexp.QuoteMeta(name) == name }

// apply removes from an object, which it changes, what its rules ignore: it removes the values at JSON pointers and
// applies operations. It skips those that do not fit the object.
func (r Rules) apply(gvk schema.GroupVersionKind, object map[string]any) {
	for _, operation := range r.operationsFor(gvk, object) {
		operate(object, operation)
	}
}

// operationsFor returns the operations that the rules apply to an object, in their order.
func (r Rules) operationsFor(gvk schema.GroupVersionKind, object map[string]any) (operations []fleet.Operation) {
	metadata, _ := object["metadata"].(map[string]any)
	namespace, _ := metadata["namespace"].(string)
	name, _ := metadata["name"].(string)
	for _, at := range r.candidates(gvk, namespace, name) {
		if candidate := r.edits[at]; candidate.concerns(gvk.Kind, namespace, name) {
			operations = append(operations, candidate.operations...)
		}
	}
	return operations
}

// candidates returns the edits that may concern an object, in their order.
func (r Rules) candidates(gvk schema.GroupVersionKind, namespace, name string) []int {
	found := slices.Clone(r.patterns[gvk.Group])
	found = append(found, r.operations[target{gvk.GroupVersion().String(), gvk.Kind, namespace, name}]...)
	for _, in := range []string{"", namespace} {
		for _, named := range []string{"", name} {
			found = append(found, r.pointers[target{gvk.Group, gvk.Kind, in, named}]...)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// concerns reports whether a candidate applies to an object.
func (e edit) concerns(kind, namespace, name string) bool {
	if !e.byPattern {
		return true
	}
	matched, err := path.Match(e.kind, kind)
	return err == nil && matched && (e.namespace == "" || e.namespace == namespace) && (e.name.text == "" || e.name.matches(name))
}

// missing are the names of the objects of a kind and namespace that may be missing.
type missing struct {
	// parts are names without special characters. As regular expressions they match names that contain them. lengths
	// are their lengths.
	parts   map[string]bool
	lengths map[int]bool
	others  []pattern
}

func (r *Rules) addMissing(rule fleet.ComparePatch) {
	key := target{group: rule.APIVersion, kind: rule.Kind, namespace: rule.Namespace}
	if r.missing[key] == nil {
		r.missing[key] = &missing{parts: map[string]bool{}, lengths: map[int]bool{}}
	}
	of := r.missing[key]
	if isPlainName(rule.Name) {
		of.parts[rule.Name], of.lengths[len(rule.Name)] = true, true
	} else {
		of.others = append(of.others, r.pattern(rule.Name, rule.Name))
	}
}

// AllowMissing reports whether an object may be missing or owned by another party: a rule for it has the operation
// "ignore". Such a rule applies to exactly its API version, kind and namespace (empty for cluster-scoped objects). Its
// name is the object's name, or a regular expression that matches any part of it. A rule without a name applies to all
// names.
func (r Rules) AllowMissing(gvk schema.GroupVersionKind, namespace, name string) bool {
	of := r.missing[target{group: gvk.GroupVersion().String(), kind: gvk.Kind, namespace: namespace}]
	if of == nil {
		return false
	}
	for length := range of.lengths {
		for from := 0; from+length <= len(name); from++ {
			if of.parts[name[from:from+length]] {
				return true
			}
		}
	}
	return slices.ContainsFunc(of.others, func(p pattern) bool { return p.matches(name) })
}

// pattern matches names that equal its text or match its regular expression, which is nil for a plain name.
type pattern struct {
	text       string
	expression *regexp.Regexp
}

func (p pattern) matches(name string) bool {
	return p.text == name || p.expression != nil && p.expression.MatchString(name)
}

// pattern compiles the name of a rule. An invalid expression is a plain name.
func (r *Rules) pattern(name, expression string) pattern {
	if isPlainName(name) {
		return pattern{text: name}
	}
	if r.shared += sizeOf(expression); r.Err() != nil {
		return pattern{text: name}
	}
	compiled, err := regexp.Compile(expression)
	if err != nil {
		r.report("name", name, "is not a valid regular expression")
		return pattern{text: name}
	}
	return pattern{name, compiled}
}

// sizeOf returns the number of instructions of a regular expression.
func sizeOf(expression string) int {
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return len(expression)
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return len(expression)
	}
	return len(program.Inst)
}
