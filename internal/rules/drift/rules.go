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
	// opIgnore allows an object to be missing.
	opIgnore = "ignore"
	opRemove = "remove"
)

// Rules say which differences a bundle ignores.
type Rules []fleet.ComparePatch

// RulesOf returns the rules in a bundle's options. options may be nil.
func RulesOf(options *fleet.DiffOptions) Rules {
	if options == nil {
		return nil
	}
	return options.ComparePatches
}

// AllowMissing reports whether an object may be missing or owned by another party: a rule for it has the operation
// "ignore". Such a rule applies to exactly its API version, kind and namespace (empty for cluster-scoped objects). Its
// name is the object's name, or a regular expression that matches any part of it. A rule without a name applies to all
// names.
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

// apply removes from an object what its rules ignore: it removes the values at JSON pointers and applies operations.
// It skips those that do not fit the object. Pointers apply to every version of the rule's group, to kinds matched
// with wildcards, and to all namespaces and names unless the rule sets them; the name may be a regular expression.
// Operations apply only to the object with the rule's API version, kind, namespace and name.
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
		return text // the path does not exist in this object, or the operation is invalid
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

// isNamed reports whether a rule's name is empty, is the object's name, or matches all of it as a regular expression.
func isNamed(rule fleet.ComparePatch, name string) bool {
	return rule.Name == "" || rule.Name == name || matches("^(?:"+rule.Name+")$", name)
}

// matches reports whether a name matches a regular expression. It returns false for an invalid expression.
func matches(expression, name string) bool {
	compiled, err := regexp.Compile(expression)
	return err == nil && compiled.MatchString(name)
}
