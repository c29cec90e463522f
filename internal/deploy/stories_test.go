package deploy

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// rawFiles returns plain YAML: a ConfigMap and a Deployment.
func rawFiles() map[string]string {
	return map[string]string{
		"cm.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: raw}\ndata: {a: b}\n",
		"dep.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: pause}\n" +
			"spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: p, image: 'docker.io/local/pause:1'}]}}}\n",
	}
}

func TestChart_IsInstalledUpgradedUninstalled(t *testing.T) {
	t.Parallel()
	l := newLab(t, "chart")
	l.start()
	ns := l.Name + "-hello"
	options := fleet.BundleDeploymentOptions{DefaultNamespace: ns, Helm: &fleet.HelmOptions{}}

	began := time.Now()
	l.apply(bundle{Name: "hello", Files: deploytest.HelloFiles("hi"), Options: options})
	bd := l.expectStatus("hello", ready)
	t.Logf("ready after %s", time.Since(began))
	if bd.Status.Release != ns+"/hello:1" {
		t.Errorf("release is %q", bd.Status.Release)
	}
	expectGreeting := func(want string) {
		t.Helper()
		cm, err := l.East.CoreV1().ConfigMaps(ns).Get(t.Context(), "hello", metav1.GetOptions{})
		if err != nil || cm.Data["greeting"] != want {
			t.Errorf("greeting is %q (%v), want %q", cm.Data["greeting"], err, want)
		}
	}
	expectGreeting("hi")

	began = time.Now()
	l.apply(bundle{Name: "hello", Files: deploytest.HelloFiles("salut"), Options: options})
	bd = l.expectStatus("hello", ready)
	t.Logf("upgraded after %s", time.Since(began))
	if bd.Status.Release != ns+"/hello:2" {
		t.Errorf("release is %q", bd.Status.Release)
	}
	expectGreeting("salut")

	began = time.Now()
	l.delete("hello")
	l.eventually(func() string {
		_, err := l.East.CoreV1().ConfigMaps(ns).Get(t.Context(), "hello", metav1.GetOptions{})
		secrets, listErr := l.East.CoreV1().Secrets(ns).List(t.Context(), metav1.ListOptions{})
		if !apierrors.IsNotFound(err) || listErr != nil || len(secrets.Items) > 0 {
			return "the release is still there"
		}
		return ""
	})
	t.Logf("uninstalled after %s", time.Since(began))
}

func TestPlainYAML_IsReleasedAndWatched(t *testing.T) {
	t.Parallel()
	l := newLab(t, "raw")
	l.start()
	ns := l.Name + "-raw"
	began := time.Now()
	l.apply(bundle{Name: "raw", Files: rawFiles(), Options: fleet.BundleDeploymentOptions{TargetNamespace: ns, Helm: &fleet.HelmOptions{}}})
	l.expectStatus("raw", func(bd *fleet.BundleDeployment) string {
		if bd.Status.AppliedDeploymentID == "" {
			return "not applied"
		}
		return ""
	})
	t.Logf("applied after %s", time.Since(began))
	l.expectStatus("raw", ready)
	t.Logf("ready after %s", time.Since(began))
}
