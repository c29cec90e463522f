package deploy

import (
	"context"
	"encoding/base64"
	"math/rand"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/hub"
	"github.com/fleet-hub/fleet/internal/rules/content"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func TestDamagedContent_IsNotDeployed(t *testing.T) {
	t.Parallel()
	l := newLab(t, "damaged")
	l.start()
	object := content.Object(deploytest.ManifestOf(deploytest.HelloFiles("damaged " + l.Name)))
	right := object.SHA256Sum
	object.SHA256Sum = "0" + right[1:]
	if object.SHA256Sum == right {
		object.SHA256Sum = "1" + right[1:]
	}
	l.create(func(ctx context.Context) error {
		return l.Hub.Fleet.Post().Resource(hub.Contents).Body(object).Do(ctx).Error()
	})
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("other"), Options: deploytest.InNamespace(l.Name), Change: func(bd *fleet.BundleDeployment) { bd.Spec.DeploymentID = object.Name + ":x" }})
	l.expectStatus("x", becauseOf(conditions.Deployed, conditions.ReasonContentDamaged, "content does not match hash"))
	l.goesOn()
	patch := []byte(`{"sha256sum": "` + right + `"}`)
	if err := l.Hub.Fleet.Patch(types.MergePatchType).Resource(hub.Contents).Name(object.Name).Body(patch).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	l.expectStatus("x", ready)
}

// TestWaitingBundles_DoNotBlockOthers has more waiting bundles than workers.
func TestWaitingBundles_DoNotBlockOthers(t *testing.T) {
	t.Parallel()
	l := newLab(t, "slots")
	l.options = func(o *Options) { o.Workers = 1 }
	l.start()
	options := deploytest.InNamespace(l.Name)
	options.Helm.TimeoutSeconds = 600
	slow := map[string]string{
		"objects": "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: {{ .Release.Name }}}\n" +
			"spec: {accessModes: [ReadWriteOnce], storageClassName: nowhere, resources: {requests: {storage: 1Gi}}}\n",
		"hooks": "apiVersion: v1\nkind: Pod\nmetadata: {name: hook, annotations: {helm.sh/hook: pre-install}}\n" +
			"spec: {nodeName: nowhere, containers: [{name: a, image: b}]}\n",
	}
	for name, text := range slow {
		l.apply(bundle{Name: name, Files: template(text), Options: options})
		l.eventually(func() string {
			if len(l.revisionsOf(l.Name, name)) == 0 {
				return name + " is not being installed"
			}
			return ""
		})
	}
	l.goesOn()
	for name := range slow {
		if got := strings.Join(l.revisionsOf(l.Name, name), ", "); got != "1 pending-install" {
			t.Errorf("%s does not wait: %s", name, got)
		}
	}
}

// goesOn checks that other bundles are deployed.
func (l *lab) goesOn() {
	l.t.Helper()
	l.apply(bundle{Name: "other", Files: deploytest.HelloFiles("other"), Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("other", ready)
}

func TestReleaseLargerThanSecret_IsNotInstalled(t *testing.T) {
	t.Parallel()
	l := newLab(t, "large")
	l.start()
	noise := make([]byte, 820_000)
	random := rand.New(rand.NewSource(1)) //nolint:gosec // the same noise each time
	random.Read(noise)
	files := deploytest.HelloFiles("hi")
	files["files/noise"] = base64.StdEncoding.EncodeToString(noise)
	l.apply(bundle{Name: "x", Files: files, Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("x", becauseOf(conditions.Installed, conditions.ReasonBundleTooLarge, "a Secret holds at most 1048576"))
	if l.configMapIsThere(l.Name, "x") || len(l.revisionsOf(l.Name, "x")) > 0 {
		t.Error("something was installed")
	}
	l.goesOn()
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("x", ready)
	l.apply(bundle{Name: "x", Files: files, Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("x", becauseOf(conditions.Installed, conditions.ReasonBundleTooLarge, ""))
	if got := l.revisionsOf(l.Name, "x"); len(got) != 1 || got[0] != "1 deployed" {
		t.Errorf("an upgrade that is too large left %v", got)
	}
}

func TestInvalidValues_AreReported(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ key, text, want string }{
		"list":    {"values.yaml", "- a\n", "not a YAML object"},
		"text":    {"values.yaml", "just text\n", "not a YAML object"},
		"no-yaml": {"values.yaml", "a: b: c\n", "not valid YAML"},
		"no-key":  {"other", "a: b\n", "the key does not exist"},
	}
	l := newLab(t, "novalues")
	l.start()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			l.create(func(ctx context.Context) error {
				_, err := l.East.CoreV1().ConfigMaps(l.Name).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{test.key: test.text}}, metav1.CreateOptions{})
				return err
			})
			options := deploytest.InNamespace(l.Name)
			options.Helm.ValuesFrom = []fleet.ValuesFrom{{ConfigMapKeyRef: &fleet.ValuesKeyRef{Name: name}}}
			l.apply(bundle{Name: name, Files: deploytest.HelloFiles("hi"), Options: options})
			l.expectStatus(name, becauseOf(conditions.Deployed, conditions.ReasonHelmValuesInvalid, test.want))
		})
	}
	l.goesOn()
}

func TestTerminatingNamespace_IsAwaited(t *testing.T) {
	t.Parallel()
	l := newLab(t, "stuck")
	ns := l.Name + "-x"
	l.namespace(ns)
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "held", Finalizers: []string{"example.com/held"}}}
	if _, err := l.East.CoreV1().ConfigMaps(ns).Create(t.Context(), held, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := l.East.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	l.start()
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(ns)})
	l.expectStatus("x", becauseOf(conditions.Deployed, conditions.ReasonNamespaceTerminating, "being terminated"))
	l.goesOn()
	free := []byte(`{"metadata":{"finalizers":null}}`)
	if _, err := l.East.CoreV1().ConfigMaps(ns).Patch(t.Context(), "held", types.MergePatchType, free, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	l.expectStatus("x", ready)
}

func TestAdmissionDenial_IsReported(t *testing.T) {
	t.Parallel()
	l := newLab(t, "admission")
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: l.Name}}
	equivalent, fail := admissionregistrationv1.Equivalent, admissionregistrationv1.Fail
	admission := l.East.AdmissionregistrationV1()
	l.create(func(ctx context.Context) error {
		_, err := admission.ValidatingAdmissionPolicies().Create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: l.Name},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
				FailurePolicy: &fail,
				MatchConstraints: &admissionregistrationv1.MatchResources{MatchPolicy: &equivalent, NamespaceSelector: selector, ObjectSelector: &metav1.LabelSelector{},
					ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
						Operations: []admissionregistrationv1.OperationType{"CREATE"},
						Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}}}}}},
				Validations: []admissionregistrationv1.Validation{{Expression: "object.metadata.name != 'x'", Message: "not that one"}},
			}}, metav1.CreateOptions{})
		return err
	})
	l.create(func(ctx context.Context) error {
		_, err := admission.ValidatingAdmissionPolicyBindings().Create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: l.Name},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: l.Name,
				ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}}}, metav1.CreateOptions{})
		return err
	})
	l.eventually(func() string { // until the policy holds
		_, err := l.East.CoreV1().ConfigMaps(l.Name).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}},
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			return "the policy does not hold yet"
		}
		return ""
	})
	l.start()
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("x", becauseOf(conditions.Deployed, conditions.ReasonAdmissionDenied, "not that one"))
	l.goesOn()
	if err := admission.ValidatingAdmissionPolicyBindings().Delete(t.Context(), l.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	l.expectStatus("x", ready)
}
