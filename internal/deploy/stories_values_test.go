package deploy

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/helmvalues"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestDriftOfValues_IsRedactedUnlessTheyArePlain(t *testing.T) {
	t.Parallel()
	l := newLab(t, "plain-values")
	l.start()
	values := []byte(`{"greeting":"how do you do"}`)
	hash := helmvalues.Hash(values, nil)
	const shown, hidden = `{"data":{"greeting":"how do you do"}}`, `{"data":{"greeting":"<redacted>"}}`
	tests := []struct {
		name, text, mark string
		secret           bool
		want             string
	}{
		{name: "plain", text: "marked with the hash of the values: shown", mark: hash, want: shown},
		{name: "unmarked", text: "not marked: redacted", want: hidden},
		{name: "former", text: "marked with the hash of other values: redacted", mark: helmvalues.Hash([]byte(`{}`), nil), want: hidden},
		{name: "also", text: "marked, and in a Secret of valuesFrom as well: redacted", mark: hash, secret: true, want: hidden},
	}
	for _, test := range tests {
		t.Run(test.text, func(t *testing.T) {
			if _, err := l.HubCore.CoreV1().Secrets(l.Name).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: test.name},
				Data: map[string][]byte{helmvalues.KeyCurrent: values}}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			options := deploytest.InNamespace(l.Name)
			if test.secret {
				if _, err := l.East.CoreV1().Secrets(l.Name).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "too"},
					Data: map[string][]byte{"values.yaml": []byte("other: how do you do")}}, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				options.Helm.ValuesFrom = []fleet.ValuesFrom{{SecretKeyRef: &fleet.ValuesKeyRef{Name: "too"}}}
			}
			l.apply(bundle{Name: test.name, Files: deploytest.HelloFiles("hi"), Options: options, Change: func(bd *fleet.BundleDeployment) {
				bd.Spec.ValuesHash = hash
				if test.mark != "" {
					bd.Annotations = map[string]string{"fleet.cattle.io/plain-values": test.mark}
				}
			}})
			l.expectStatus(test.name, ready)
			l.edit("configmaps", test.name, `{"data":{"greeting":"edited"}}`)
			l.expectStatus(test.name, modified("configmap.v1 "+l.Name+"/"+test.name+" modified "+test.want))
		})
	}
}

// A hub moves values to a Secret and back, and so does a take-over in either direction. The deployment ID stays.
func TestValuesThatMoveToASecretAndBack_AreNotDeployedAgain(t *testing.T) {
	t.Parallel()
	l := newLab(t, "moving-values")
	l.start()
	values := []byte(`{"greeting":"how do you do"}`)
	if _, err := l.HubCore.CoreV1().Secrets(l.Name).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "x"},
		Data: map[string][]byte{helmvalues.KeyCurrent: values}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	options := deploytest.InNamespace(l.Name)
	inline := deploytest.InNamespace(l.Name)
	inline.Helm.Values = &fleet.GenericMap{Data: map[string]any{"greeting": "how do you do"}}
	before := l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: inline})
	l.expectStatus("x", ready)
	move := func(options fleet.BundleDeploymentOptions, hash string) {
		l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: options, Change: func(bd *fleet.BundleDeployment) {
			bd.Spec.DeploymentID, bd.Spec.StagedDeploymentID, bd.Spec.ValuesHash = before.Spec.DeploymentID, before.Spec.DeploymentID, hash
		}})
	}
	for _, where := range []struct {
		text string
		move func()
		// drift shows where the agent has the values from.
		drift string
	}{
		{"in the BundleDeployment", func() {}, `{"data":{"greeting":"how do you do"}}`},
		{"in a Secret", func() { move(options, helmvalues.Hash(values, nil)) }, `{"data":{"greeting":"<redacted>"}}`},
		{"back", func() { move(inline, "") }, `{"data":{"greeting":"how do you do"}}`},
	} {
		t.Log(where.text)
		where.move()
		l.edit("configmaps", "x", `{"data":{"greeting":"edited"}}`)
		l.expectStatus("x", modified("configmap.v1 "+l.Name+"/x modified "+where.drift))
		l.edit("configmaps", "x", `{"data":{"greeting":"how do you do"}}`)
		l.expectStatus("x", ready)
	}
	if got := l.revisionsOf(l.Name, "x"); len(got) != 1 {
		t.Errorf("deployed again: revisions %v", got)
	}
}
