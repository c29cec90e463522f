package hubtest

import (
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// List reads the objects of a namespace, or of all, from the server, ordered by name. It supports only the label
// selector of the options.
func (k *fakeKind[T, L]) List(namespace string, options metav1.ListOptions) (L, error) {
	k.hub.mu.Lock()
	defer k.hub.mu.Unlock()
	var none L
	selector, err := labels.Parse(options.LabelSelector)
	if err != nil {
		return none, fmt.Errorf("selecting by labels: %w", err)
	}
	if err := k.hub.note("list", k.gvk.Kind); err != nil {
		return none, err
	}
	var found []T
	for _, object := range k.hub.objects {
		if one, ok := object.(T); ok && (namespace == "" || one.GetNamespace() == namespace) && selector.Matches(labels.Set(one.GetLabels())) {
			found = append(found, one.DeepCopyObject().(T))
		}
	}
	slices.SortFunc(found, func(a, b T) int {
		return slices.Compare([]string{a.GetNamespace(), a.GetName()}, []string{b.GetNamespace(), b.GetName()})
	})
	items := make([]runtime.Object, 0, len(found))
	for _, one := range found {
		items = append(items, one)
	}
	list, ok := reflect.New(reflect.TypeOf(none).Elem()).Interface().(L)
	if !ok {
		return none, unexpected("list " + k.gvk.Kind)
	}
	return list, meta.SetList(list, items)
}
