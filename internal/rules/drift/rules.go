package drift

import (
	"encoding/json"
	"path"
	"regexp"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const (
	// opIgnore disregards that an object is missing.
	opIgnore = "ignore"
	opRemove = "remove"
)

// Rules are what a bundle wants to be disregarded.
type Rules []fleet.ComparePatch

// RulesOf are the rules in a bundle's options; options may be nil.
func RulesOf(options *fleet.DiffOptions) Rules {
	if options == nil {
		return nil
	}
	return options.ComparePatches
}

// AllowMissing tells whether an object may be missing, or be somebody else's: a rule for it has the operation
// "ignore". Such a rule is for the API version, kind and namespace that it names, none for cluster-scoped objects, and
// for names that are as it says, or that what it says matches anywhere as a regular expression; without a name it is
// for all.
func (r Rules) AllowMissing(gvk schema.GroupVersionKind, namespace, name string) bool {
	for _, rule := range r {
		if !isOfKind(rule, gvk) || rule.Namespace != namespace || (rule.Name != name && !matches(rule.Name, name)) {
			continue
		}
		for _, operation := range rule.Operations {
			if operation.Op == opIgnore {
				return true
			}
		}
	}
	return false
}

// apply takes out of an object what the rules for it disregard: what pointers point at is removed, operations are
// done. What does not fit is left out. Pointers are for every version of the rule's group, for kinds that the rule's
// matches with wildcards, and for all names and namespaces unless it has one, of which the name may be a regular
// expression. Operations are for the very object: API version, kind, namespace and name.
func (r Rules) apply(gvk schema.GroupVersionKind, object map[string]any) map[string]any {
	metadata, _ := object["metadata"].(map[string]any)
	namespace, _ := metadata["namespace"].(string)
	name, _ := metadata["name"].(string)
	var operations []fleet.Operation
	for _, rule := range r {
		if isOfGroup(rule, gvk) && isIn(rule, namespace) && isNamed(rule, name) {
			for _, pointer := range rule.JSONPointers {
				operations = append(operations, fleet.Operation{Op: opRemove, Path: pointer})
			}
		}
		if isOfKind(rule, gvk) && rule.Namespace == namespace && rule.Name == name {
			operations = append(operations, rule.Operations...)
		}
	}
	return operate(operations, object)
}

func operate(operations []fleet.Operation, object map[string]any) map[string]any {
	if len(operations) == 0 {
		return object
	}
	text, err := json.Marshal(object)
	if err != nil {
		return object
	}
	for _, operation := range operations {
		if operation.Op != opIgnore {
			text = operateOnText(operation, text)
		}
	}
	var out map[string]any
	if err := utiljson.Unmarshal(text, &out); err != nil {
		return object
	}
	return out
}

func operateOnText(operation fleet.Operation, text []byte) []byte {
	encoded, err := json.Marshal([]fleet.Operation{operation})
	if err != nil {
		return text
	}
	patch, err := jsonpatch.DecodePatch(encoded)
	if err != nil {
		return text
	}
	changed, err := patch.Apply(text)
	if err != nil {
		return text // there is no such place in this object, or the operation makes no sense
	}
	return changed
}

func isOfKind(rule fleet.ComparePatch, gvk schema.GroupVersionKind) bool {
	return rule.Kind == gvk.Kind && rule.APIVersion == gvk.GroupVersion().String()
}

func isOfGroup(rule fleet.ComparePatch, gvk schema.GroupVersionKind) bool {
	gv, err := schema.ParseGroupVersion(rule.APIVersion)
	if err != nil || gv.Group != gvk.Group {
		return false
	}
	matched, err := path.Match(rule.Kind, gvk.Kind)
	return err == nil && matched
}

func isIn(rule fleet.ComparePatch, namespace string) bool {
	return rule.Namespace == "" || rule.Namespace == namespace
}

// isNamed takes a rule's name for the object's, or for a regular expression of the whole of it.
func isNamed(rule fleet.ComparePatch, name string) bool {
	return rule.Name == "" || rule.Name == name || matches("^(?:"+rule.Name+")$", name)
}

// matches is false for what is no regular expression.
func matches(expression, name string) bool {
	compiled, err := regexp.Compile(expression)
	return err == nil && compiled.MatchString(name)
}
