package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	"github.com/fleet-hub/fleet/internal/kube/answers"
	"github.com/fleet-hub/fleet/internal/pack"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func bundle(name string) *fleet.Bundle {
	return &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: name}}
}

func targetOf(b *fleet.Bundle) *target {
	return &target{Bundle: &pack.Bundle{Bundle: b, Folder: "app"}}
}

func deleting(b *fleet.Bundle) *fleet.Bundle {
	now := metav1.NewTime(time.Unix(1, 0))
	b.DeletionTimestamp = &now
	return b
}

func TestGone_IsWhatThisCallHasNotMade(t *testing.T) {
	made := []*fleet.Bundle{bundle("kept"), bundle("old"), deleting(bundle("deleting")), bundle("older")}
	var got []string
	for _, one := range gone(made, []*target{targetOf(bundle("kept")), targetOf(bundle("new"))}) {
		got = append(got, one.Name)
	}
	if want := []string{"old", "older"}; !slices.Equal(got, want) || len(made) != 4 {
		t.Errorf("gone: %v, want %v", got, want)
	}
}

func TestGoneScans_AreThoseOfNoBundle(t *testing.T) {
	scan := func(name string) unstructured.Unstructured {
		object := unstructured.Unstructured{Object: map[string]any{}}
		object.SetName(name)
		return object
	}
	kept, removed := scan("kept"), scan("removed")
	now := metav1.NewTime(time.Unix(1, 0))
	removed.SetDeletionTimestamp(&now)
	one := targetOf(bundle("a"))
	one.ImageScans = []*unstructured.Unstructured{&kept}
	got := goneScans([]unstructured.Unstructured{scan("old"), kept, removed}, []*target{one})
	if want := []string{"old"}; !slices.Equal(got, want) {
		t.Errorf("gone: %v, want %v", got, want)
	}
}

func TestBundleThatCannotBeWritten_HasAProblem(t *testing.T) {
	values := map[string][]byte{"values.yaml": []byte("{}")}
	secret := func(kind corev1.SecretType) *corev1.Secret { return &corev1.Secret{Type: kind} }
	helmOp := bundle("demo")
	helmOp.Spec.HelmOpOptions = &fleet.BundleHelmOptions{}
	for name, test := range map[string]struct {
		target target
		want   string
	}{
		"new Bundle":                          {target{values: values}, ""},
		"existing Bundle":                     {target{old: bundle("demo"), values: values, secret: secret(fleet.SecretTypeBundleValues)}, ""},
		"foreign Secret, no values":           {target{secret: secret(corev1.SecretTypeOpaque)}, ""},
		"Bundle that only some stores accept": {target{size: pack.RequestLimit}, ""},
		"Bundle that is being deleted": {
			target{old: deleting(bundle("demo"))}, `the bundle "demo" is being deleted, cannot create during a delete operation`,
		},
		"Bundle of a HelmOp": {target{old: helmOp}, `a helmOps bundle with name "demo" already exists`},
		"foreign Secret": {
			target{secret: secret(corev1.SecretTypeOpaque), values: values},
			"Secret ws/demo of type Opaque has the name of the Bundle, so that its Helm values cannot be stored; rename the Secret, or set `name` in app/fleet.yaml",
		},
		"Bundle that no API server accepts": {target{size: pack.RequestLimit + 1}, "Bundle demo has 1 KiB with 0 files, more than the 1536 KiB"},
		"values that no Secret can contain": {
			target{values: map[string][]byte{"a": make([]byte, 1<<20), "b": {1}}},
			"the Helm values of Bundle demo have 1025 KiB, more than the 1024 KiB that fit into a Secret; move files out of the values, or use helm.valuesFrom",
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.target.Bundle = targetOf(bundle("demo")).Bundle
			if got := problemOf(&test.target); !strings.HasPrefix(got, test.want) || (got == "") != (test.want == "") {
				t.Errorf("problem %q, want %q", got, test.want)
			}
		})
	}
}

func TestBundles_AreSortedBySize(t *testing.T) {
	sized := func(name string, size int) *target {
		one := bundle(name)
		one.Spec.Resources = []fleet.BundleResource{{Name: "f", Content: strings.Repeat("x", size)}}
		return targetOf(one)
	}
	large, rest, refused := decide([]*target{sized("a", 10), sized("b", pack.StoreLimit), sized("c", pack.RequestLimit), sized("d", 10)})
	if len(large) != 1 || large[0].Name != "b" || len(rest) != 2 || rest[0].Name != "a" || rest[1].Name != "d" {
		t.Errorf("large %v, rest %v", large, rest)
	}
	if len(refused) != 1 || !strings.HasPrefix(refused[0], "Bundle c has ") {
		t.Errorf("refused %q", refused)
	}
	failure := errors.New("c")
	if err := (problems{"a", "b"}).with(nil); err == nil || err.Error() != "a; b" {
		t.Errorf("error %v", err)
	}
	if err := (problems{"a", "b"}).with(failure); !errors.Is(err, failure) || err.Error() != "a; b; c" {
		t.Errorf("error %v", err)
	}
	if err := (problems{}).with(nil); err != nil {
		t.Errorf("error %v", err)
	}
}

func TestRefusalForSize_IsRecognized(t *testing.T) {
	resource := schema.GroupResource{Resource: "bundles"}
	for _, test := range []struct {
		err  error
		want bool
	}{
		{apierrors.NewRequestEntityTooLargeError("limit is 3145728"), true},
		{errors.New("etcdserver: request is too large"), true},
		{errors.New("rpc error: code = ResourceExhausted desc = trying to send message larger than max (2 vs. 1)"), true},
		{apierrors.NewForbidden(resource, "a", nil), false},
		{apierrors.NewConflict(resource, "a", nil), false},
	} {
		if got := answers.IsTooLarge(explain("writing Bundle ws/a", test.err)); got != test.want {
			t.Errorf("%v: %v", test.err, got)
		}
	}
}

func TestFoldersWithTheSameBundle_AreAWarning(t *testing.T) {
	made := func(name, folder string) *pack.Bundle { return &pack.Bundle{Bundle: bundle(name), Folder: folder} }
	got := sameName([]*pack.Bundle{made("a", "x"), made("b", "y"), made("a", "./x"), made("b", "z")})
	want := []string{"the folders y and z make the same Bundle b, and only one of them is deployed; set `name` in the fleet.yaml of one"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	targets, err := targetsOf([]*pack.Bundle{made("a", "x"), made("b", "y"), made("a", "z")})
	if err != nil || len(targets) != 2 || targets[0].Folder != "z" || targets[1].Folder != "y" {
		t.Errorf("targets %v, error %v", targets, err)
	}
}

func TestOverwrites_AreTheObjectsThatMoveToAnotherBundle(t *testing.T) {
	file := func(name, text string) fleet.BundleResource { return fleet.BundleResource{Name: name, Content: text} }
	const one, other = "kind: ConfigMap\nmetadata: {name: one, namespace: a}\n", "kind: ConfigMap\nmetadata: {name: one, namespace: b}\n"
	object := fleet.OverwrittenResource{Kind: "ConfigMap", Name: "one", Namespace: "a"}
	for name, test := range map[string]struct {
		old, new fleet.BundleResource
		want     []fleet.OverwrittenResource
	}{
		"same object":             {file("a", one), file("a", one), []fleet.OverwrittenResource{object}},
		"same object, other text": {file("a", one), file("a", "# x\n"+one), []fleet.OverwrittenResource{object}},
		"another namespace":       {file("a", one), file("a", other), nil},
		"another file":            {file("a", one), file("b", one), nil},
		"templates": {
			file("a", "kind: A\nmetadata: {name: x-{{ .Release.Name }}}\n"), file("a", "kind: A\nmetadata: {name: x-{{ .Values.other }}}\n"),
			[]fleet.OverwrittenResource{{Kind: "A", Name: "x-TEMPLATED"}},
		},
		"no kind":           {file("a", "metadata: {name: x}"), file("a", "metadata: {name: x}"), nil},
		"not YAML":          {file("a", "{{ if }}\n: ["), file("a", "{{ if }}\n: ["), nil},
		"several documents": {file("a", one+"---\n"+other), file("a", one+"---\n"+other), nil},
		"compressed":        {fleet.BundleResource{Name: "a", Content: one, Encoding: "base64+gz"}, file("a", one), nil},
		"aliases that grow": {file("a", bomb()), file("a", bomb()), nil},
	} {
		t.Run(name, func(t *testing.T) {
			old, made := bundle("old"), targetOf(bundle("new"))
			old.Spec.Resources, made.Spec.Resources = []fleet.BundleResource{test.old}, []fleet.BundleResource{test.new}
			addOverwrites([]*fleet.Bundle{old}, []*target{made})
			if diff := cmp.Diff(test.want, made.Spec.Overwrites); diff != "" {
				t.Errorf("overwrites (-want +got):\n%s", diff)
			}
		})
	}
}

// bomb returns an object with lists of aliases, each ten times as large as the one before.
func bomb() string {
	var text strings.Builder
	text.WriteString("kind: A\na0: &a0 [x]\n")
	for i := range 10 {
		fmt.Fprintf(&text, "a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i), 10), ","))
	}
	return text.String()
}

func options(values map[string]any, files ...string) fleet.BundleDeploymentOptions {
	helm := &fleet.HelmOptions{ValuesFiles: files}
	if values != nil {
		helm.Values = &fleet.GenericMap{Data: values}
	}
	return fleet.BundleDeploymentOptions{Helm: helm}
}

func TestValues_AreMovedToTheSecret(t *testing.T) {
	one := bundle("demo")
	one.Spec.BundleDeploymentOptions = options(map[string]any{"a": 1.0}, "v.yaml")
	one.Spec.Targets = []fleet.BundleTarget{
		{Name: "t", BundleDeploymentOptions: options(map[string]any{"b": 2.0})}, {Name: "u", BundleDeploymentOptions: options(nil, "u.yaml")}, {},
	}
	data, err := takeValues(one)
	if err != nil || len(data) != 2 || string(data["values.yaml"]) != `{"a":1}` || string(data["t"]) != `{"b":2}` || one.Spec.ValuesHash == "" {
		t.Errorf("data %q, hash %q, error %v", data, one.Spec.ValuesHash, err)
	}
	for _, helm := range []*fleet.HelmOptions{one.Spec.Helm, one.Spec.Targets[0].Helm, one.Spec.Targets[1].Helm} {
		if helm.Values != nil || helm.ValuesFiles != nil {
			t.Errorf("the Bundle still contains %v", helm)
		}
	}
	empty := bundle("demo")
	empty.Spec.BundleDeploymentOptions = options(nil, "v.yaml")
	if data, err := takeValues(empty); data != nil || err != nil || empty.Spec.ValuesHash != "" || len(empty.Spec.Helm.ValuesFiles) != 1 {
		t.Errorf("no values: data %q, error %v", data, err)
	}
}

func TestValuesOfTargetsThatCannotBeTold_AreRefused(t *testing.T) {
	values := func(name string) fleet.BundleTarget {
		return fleet.BundleTarget{Name: name, BundleDeploymentOptions: options(map[string]any{"a": 1.0})}
	}
	for name, test := range map[string]struct {
		root    map[string]any
		targets []fleet.BundleTarget
		want    string
	}{
		"same name":                     {nil, []fleet.BundleTarget{values("t"), values("t")}, `two targets with helm.values have the name "t"`},
		"same name, values only in one": {nil, []fleet.BundleTarget{values("t"), {Name: "t"}}, ""},
		"no name":                       {nil, []fleet.BundleTarget{values("")}, "has no name"},
		"name of the Bundle's values":   {map[string]any{"a": 1.0}, []fleet.BundleTarget{values("values.yaml")}, `have the name "values.yaml"`},
	} {
		t.Run(name, func(t *testing.T) {
			one := bundle("demo")
			one.Spec.BundleDeploymentOptions, one.Spec.Targets = options(test.root), test.targets
			_, err := takeValues(one)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

func TestSecret_IsOnlyDeletedIfTheBundleOwnsItAsValues(t *testing.T) {
	owner := bundle("demo")
	owner.UID = "1"
	owned := []metav1.OwnerReference{*metav1.NewControllerRef(owner, fleet.SchemeGroupVersion.WithKind("Bundle"))}
	other := bundle("demo")
	other.UID = "2"
	for name, test := range map[string]struct {
		secret *corev1.Secret
		of     *fleet.Bundle
		want   bool
	}{
		"own":               {&corev1.Secret{Type: fleet.SecretTypeBundleValues, ObjectMeta: metav1.ObjectMeta{OwnerReferences: owned}}, owner, true},
		"of another type":   {&corev1.Secret{Type: corev1.SecretTypeOpaque, ObjectMeta: metav1.ObjectMeta{OwnerReferences: owned}}, owner, false},
		"of another Bundle": {&corev1.Secret{Type: fleet.SecretTypeBundleValues, ObjectMeta: metav1.ObjectMeta{OwnerReferences: owned}}, other, false},
		"without owner":     {&corev1.Secret{Type: fleet.SecretTypeBundleValues}, owner, false},
		"none":              {nil, owner, false},
	} {
		if got := isOwn(test.secret, test.of); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A Bundle that rolls out: the hub has written its status since it was read.
func TestStatusWrittenMeanwhile_UpdateIsRetried(t *testing.T) {
	for name, test := range map[string]struct {
		meanwhile func(*fleet.Bundle)
		conflict  bool
	}{
		"status":   {func(b *fleet.Bundle) { b.Status.ObservedGeneration = 7 }, false},
		"spec":     {func(b *fleet.Bundle) { b.Spec.Paused = true }, true},
		"deletion": {func(b *fleet.Bundle) { deleting(b).Finalizers = []string{"f"} }, true},
		"another":  {func(b *fleet.Bundle) { b.UID = "another" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			hub := clitest.Start(t, bundle("a"))
			w := &writer{cluster: hub.Open(t)}
			wanted := targetOf(bundle("a"))
			wanted.Spec.KeepResources = true
			if err := w.readOld(t.Context(), wanted); err != nil {
				t.Fatal(err)
			}
			changed := wanted.old.DeepCopy()
			test.meanwhile(changed)
			changed.ResourceVersion = ""
			hub.Put(changed)
			err := w.bundle(t.Context(), wanted)
			if apierrors.IsConflict(err) != test.conflict || err != nil && !test.conflict {
				t.Fatalf("error %v", err)
			}
			if stored := hub.Get(bundle("a")); !test.conflict {
				spec, _, _ := unstructured.NestedBool(stored.Object, "spec", "keepResources")
				status, _, _ := unstructured.NestedNumberAsFloat64(stored.Object, "status", "observedGeneration")
				if !spec || status != 7 {
					t.Errorf("stored: %v", stored.Object)
				}
			}
		})
	}
}

func TestConflict_IsRetried(t *testing.T) {
	conflict := explain("writing Bundle ws/a", apierrors.NewConflict(schema.GroupResource{Resource: "bundles"}, "a", errors.New("changed")))
	for name, test := range map[string]struct {
		attempts int
		errs     []error
		calls    int
		fails    bool
	}{
		"conflict of the second":     {3, []error{joined([]error{errors.New("x"), conflict}), nil}, 2, false},
		"conflict and refusal":       {3, []error{problems{"a"}.with(joined([]error{errors.New("x"), conflict})), nil}, 2, false},
		"success":                    {3, []error{nil}, 1, false},
		"another error":              {3, []error{errors.New("x")}, 1, true},
		"conflict, then success":     {3, []error{conflict, nil}, 2, false},
		"too many conflicts":         {2, []error{conflict, conflict, nil}, 2, true},
		"one attempt":                {1, []error{conflict, nil}, 1, true},
		"not a positive number is 1": {-1, []error{conflict, nil}, 1, true},
	} {
		calls := 0
		err := retrying(test.attempts, func() error { calls++; return test.errs[calls-1] })
		if calls != test.calls || (err != nil) != test.fails {
			t.Errorf("%s: %d calls, error %v", name, calls, err)
		}
	}
}

func TestInterrupt_EndsTheWrites(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	w, calls := &writer{concurrency: 1}, 0
	targets := []*target{targetOf(bundle("a")), targetOf(bundle("b")), targetOf(bundle("c")), targetOf(bundle("d"))}
	err := joined(w.all(ctx, targets, func(ctx context.Context, one *target) error {
		calls++
		interrupt()
		return explain("writing Bundle ws/"+one.Name, ctx.Err())
	}))
	if want := "writing Bundle ws/a: interrupted: context canceled"; calls != 1 || err == nil || err.Error() != want {
		t.Errorf("%d calls, error %v, want %q", calls, err, want)
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v is not that of an interrupt", err)
	}
}
