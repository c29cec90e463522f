package selection

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestUnsupported(t *testing.T) {
	ofRepo := func(b *fleet.Bundle) { b.Labels = map[string]string{fleet.LabelRepoName: "repo"} }
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	limited := func(bd *fleet.BundleDeployment) { bd.Spec.Options.AllowedTargetNamespaceSelector = selector }
	stagedLimit := func(bd *fleet.BundleDeployment) { bd.Spec.StagedOptions.AllowedTargetNamespaceSelector = selector }
	tests := map[string]struct {
		bundle   *fleet.Bundle
		existing []*fleet.BundleDeployment
		want     error
	}{
		"any Bundle":                                           {bundle: bundle()},
		"contents in a registry":                               {bundle: bundle(func(b *fleet.Bundle) { b.Spec.ContentsID = "s-1" }), want: errOCIStorage},
		"a chart that agents download":                         {bundle: bundle(func(b *fleet.Bundle) { b.Spec.HelmOpOptions = &fleet.BundleHelmOptions{} }), want: errHelmOp},
		"a name that is too long":                              {bundle: bundle(func(b *fleet.Bundle) { b.Name = strings.Repeat("a", 300) }), want: targeting.CheckName(strings.Repeat("a", 300))},
		"Bundle of a repository":                               {bundle: bundle(ofRepo), existing: []*fleet.BundleDeployment{existing("one")}},
		"Bundle of a repository, existing limit on namespaces": {bundle: bundle(ofRepo), existing: []*fleet.BundleDeployment{existing("one"), existing("two", limited)}, want: errLimited},
		"Bundle of a repository, staged limit on namespaces":   {bundle: bundle(ofRepo), existing: []*fleet.BundleDeployment{existing("one", stagedLimit)}, want: errLimited},
		"Bundle of a repository with its own limit on namespaces": {
			bundle:   bundle(ofRepo, func(b *fleet.Bundle) { b.Spec.AllowedTargetNamespaceSelector = selector }),
			existing: []*fleet.BundleDeployment{existing("one", limited)},
		},
		"Bundle without a repository, existing limit on namespaces": {bundle: bundle(), existing: []*fleet.BundleDeployment{existing("one", limited)}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Unsupported(test.bundle, test.existing); fmt.Sprint(got) != fmt.Sprint(test.want) {
				t.Errorf("got %v; want %v", got, test.want)
			}
		})
	}
}

func bundle(modifiers ...func(*fleet.Bundle)) *fleet.Bundle {
	b := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "web"}}
	for _, modify := range modifiers {
		modify(b)
	}
	return b
}

func existing(cluster string, modifiers ...func(*fleet.BundleDeployment)) *fleet.BundleDeployment {
	bd := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "c-" + cluster, Name: "web"}}
	for _, modify := range modifiers {
		modify(bd)
	}
	return bd
}
