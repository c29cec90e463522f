package deploy

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/release"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// deployment returns a deployed BundleDeployment with the given changes.
func deployment(changes ...func(*fleet.BundleDeployment)) *fleet.BundleDeployment {
	bd := &fleet.BundleDeployment{
		ObjectMeta: metav1.ObjectMeta{Name: "hello", Namespace: "cluster-ns", Labels: map[string]string{fleet.LabelBundleNamespace: "fleet-default"}},
		Spec:       fleet.BundleDeploymentSpec{DeploymentID: "s-1:a", StagedDeploymentID: "s-1:a", Options: in("web")},
	}
	bd.Status.AppliedDeploymentID, bd.Status.Release = "s-1:a", "web/hello:1"
	for _, kind := range []string{fleet.ConditionInstalled, fleet.ConditionDeployed} {
		fleet.SetCondition(&bd.Status.Conditions, noon, genericcondition.GenericCondition{Type: kind, Status: corev1.ConditionTrue})
	}
	for _, change := range changes {
		change(bd)
	}
	return bd
}

func TestDecide(t *testing.T) {
	tests := map[string]struct {
		change        func(*fleet.BundleDeployment)
		releaseExists bool
		forced        bool
		want          verdict
	}{
		"release in place: is kept":                         {releaseExists: true, want: Keep},
		"release missing: is deployed":                      {want: Deploy},
		"release in place, forced: is deployed":             {releaseExists: true, forced: true, want: Deploy},
		"another deployment ID is deployed":                 {change: func(bd *fleet.BundleDeployment) { bd.Spec.DeploymentID = "s-2:a" }, releaseExists: true, want: Deploy},
		"a new BundleDeployment is deployed":                {change: func(bd *fleet.BundleDeployment) { bd.Status = fleet.BundleDeploymentStatus{} }, want: Deploy},
		"a release under a former name is made again":       {change: func(bd *fleet.BundleDeployment) { bd.Status.Release = "web/other:1" }, releaseExists: true, want: Deploy},
		"a release in a former namespace is made again":     {change: func(bd *fleet.BundleDeployment) { bd.Status.Release = "other/hello:1" }, releaseExists: true, want: Deploy},
		"a release the status names badly is made again":    {change: func(bd *fleet.BundleDeployment) { bd.Status.Release = "hello" }, releaseExists: true, want: Deploy},
		"permanent failure: is kept":                        {change: func(bd *fleet.BundleDeployment) { failedDeployment(&bd.Status, noon, "s-1:a", fleet.ReasonError, "x") }, want: KeepFailure},
		"permanent failure, retry due: is deployed":         {change: func(bd *fleet.BundleDeployment) { failedDeployment(&bd.Status, noon, "s-1:a", fleet.ReasonError, "x") }, forced: true, want: Deploy},
		"a failure of another deployment ID does not count": {change: func(bd *fleet.BundleDeployment) { failedDeployment(&bd.Status, noon, "s-0:a", fleet.ReasonError, "x") }, want: Deploy},
		"temporary error: is deployed": {change: func(bd *fleet.BundleDeployment) {
			bd.Status.AppliedDeploymentID = ""
			notDeployed(&bd.Status, noon, fleet.ReasonError, "x")
		}, want: Deploy},
		"a release whose namespace could not be labelled is kept": {change: func(bd *fleet.BundleDeployment) { namespaceForbidden(&bd.Status, noon, "s-1:a", "web/hello:1", "x") }, releaseExists: true, want: Keep},
		"paused is left alone":                       {change: func(bd *fleet.BundleDeployment) { bd.Spec.Paused = true }, forced: true, want: LeaveAlone},
		"outside its schedule is left alone":         {change: func(bd *fleet.BundleDeployment) { bd.Spec.OffSchedule = true }, want: LeaveAlone},
		"waiting for values is left alone":           {change: func(bd *fleet.BundleDeployment) { bd.Spec.WaitingForValues = true }, want: LeaveAlone},
		"being deleted is left alone":                {change: func(bd *fleet.BundleDeployment) { bd.DeletionTimestamp = &metav1.Time{Time: noon} }, want: LeaveAlone},
		"without a deployment ID is left alone":      {change: func(bd *fleet.BundleDeployment) { bd.Spec.DeploymentID = "" }, want: LeaveAlone},
		"contents in a registry are refused":         {change: func(bd *fleet.BundleDeployment) { bd.Spec.OCIContents = true }, releaseExists: true, want: Refuse},
		"a chart to download is refused":             {change: func(bd *fleet.BundleDeployment) { bd.Spec.HelmChartOptions = &fleet.BundleHelmOptions{} }, want: Refuse},
		"paused comes before refused":                {change: func(bd *fleet.BundleDeployment) { bd.Spec.OCIContents = true; bd.Spec.Paused = true }, want: LeaveAlone},
		"deployment ID without a colon: is deployed": {change: func(bd *fleet.BundleDeployment) { bd.Spec.DeploymentID = "s-1"; bd.Status.AppliedDeploymentID = "s-1" }, releaseExists: true, want: Keep},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bd := deployment()
			if test.change != nil {
				test.change(bd)
			}
			before := bd.DeepCopy()
			got := decide(situation{BundleDeployment: bd, Status: &bd.Status, ReleaseExists: test.releaseExists, Forced: test.forced})
			if got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
			if diff := cmp.Diff(before, bd); diff != "" {
				t.Errorf("the input was changed:\n%s", diff)
			}
		})
	}
}

func TestNextStep(t *testing.T) {
	const (
		deployed     = release.StatusDeployed
		failed       = release.StatusFailed
		superseded   = release.StatusSuperseded
		pendingUp    = release.StatusPendingUpgrade
		pendingIn    = release.StatusPendingInstall
		pendingBack  = release.StatusPendingRollback
		uninstalled  = release.StatusUninstalled
		uninstalling = release.StatusUninstalling
	)
	tests := map[string]struct {
		history   []revision
		want      step
		leftovers []int
	}{
		"nothing":                                          {nil, Install, nil},
		"deployed":                                         {[]revision{{1, deployed}}, Upgrade, nil},
		"deployed, in any order":                           {[]revision{{2, deployed}, {1, superseded}}, Upgrade, nil},
		"failed from the start":                            {[]revision{{1, failed}}, Upgrade, nil},
		"failed twice from the start":                      {[]revision{{1, failed}, {2, failed}}, Upgrade, []int{1}},
		"an upgrade failed":                                {[]revision{{1, deployed}, {2, failed}}, Upgrade, []int{2}},
		"two upgrades failed":                              {[]revision{{3, failed}, {1, deployed}, {2, failed}}, Upgrade, []int{3, 2}},
		"an upgrade failed and the next succeeded":         {[]revision{{2, failed}, {3, deployed}}, Upgrade, nil},
		"interrupted while installing":                     {[]revision{{1, pendingIn}}, RecoverAndUpgrade, nil},
		"interrupted while upgrading":                      {[]revision{{1, deployed}, {2, pendingUp}}, RecoverAndUpgrade, []int{2}},
		"interrupted while rolling back":                   {[]revision{{1, superseded}, {2, failed}, {3, pendingBack}}, RecoverAndUpgrade, []int{1, 2}},
		"interrupted while uninstalling":                   {[]revision{{1, uninstalling}}, UninstallFirst, nil},
		"uninstalled, with its history kept":               {[]revision{{1, uninstalled}}, Install, nil},
		"installed again after it was uninstalled":         {[]revision{{1, uninstalled}, {2, deployed}}, Upgrade, nil},
		"superseded, the newest revision having been lost": {[]revision{{1, superseded}}, Upgrade, nil},
		"of an unknown status":                             {[]revision{{1, release.StatusUnknown}}, Upgrade, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := nextStep(test.history); got != test.want {
				t.Errorf("step %d, want %d", got, test.want)
			}
			if diff := cmp.Diff(test.leftovers, leftovers(test.history)); diff != "" {
				t.Errorf("leftovers:\n%s", diff)
			}
		})
	}
}

func TestReleaseFor(t *testing.T) {
	tests := map[string]struct {
		name    string
		options fleet.BundleDeploymentOptions
		want    string
	}{
		"nothing said":              {"hello", fleet.BundleDeploymentOptions{}, "default/hello"},
		"the default namespace":     {"hello", fleet.BundleDeploymentOptions{DefaultNamespace: "a"}, "a/hello"},
		"the target namespace wins": {"hello", fleet.BundleDeploymentOptions{DefaultNamespace: "a", TargetNamespace: "b"}, "b/hello"},
		"a release name":            {"hello", fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{ReleaseName: "x"}}, "default/x"},
		"a name Helm would refuse":  {"my.bundle", fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{}}, "default/my-bundle-747e8d19"},
		"a long name":               {strings.Repeat("a", 60), fleet.BundleDeploymentOptions{}, "default/" + strings.Repeat("a", 47) + "-cc7ed"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := releaseFor(test.name, &test.options).String(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestParseRelease(t *testing.T) {
	tests := map[string]struct {
		text     string
		key      releaseKey
		revision int
		ok       bool
	}{
		"a release":               {"web/hello:3", releaseKey{"web", "hello"}, 3, true},
		"a name with dots":        {"web/a.b:10", releaseKey{"web", "a.b"}, 10, true},
		"nothing":                 {"", releaseKey{}, 0, false},
		"no namespace":            {"/hello:1", releaseKey{}, 0, false},
		"no name":                 {"web/:1", releaseKey{}, 0, false},
		"no revision":             {"web/hello", releaseKey{}, 0, false},
		"revision 0":              {"web/hello:0", releaseKey{}, 0, false},
		"a revision of its own":   {"web/hello:01", releaseKey{}, 0, false},
		"a negative revision":     {"web/hello:-1", releaseKey{}, 0, false},
		"a revision that is none": {"web/hello:x", releaseKey{}, 0, false},
		"more than a name":        {"web/a/b:1", releaseKey{}, 0, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			key, revision, ok := parseRelease(test.text)
			if key != test.key || revision != test.revision || ok != test.ok {
				t.Errorf("got %v %d %t", key, revision, ok)
			}
			if ok && key.at(revision) != test.text {
				t.Errorf("written again it is %q", key.at(revision))
			}
		})
	}
}

func TestSetFor(t *testing.T) {
	tests := map[string]struct {
		name, scope string
		want        set
	}{
		"a bundle":                {"remove-metadata", "", set{"default-remove-metadata", "0f3e1d9d146fa8b290c0de403881184751430e59"}},
		"a recorded bundle":       {"hello", "", set{"default-hello", "2d590309bb1a09cde3e2987efdba74ce39916388"}},
		"another recorded bundle": {"raw", "", set{"default-raw", "77bbdffd2b909c712b835b3ab5c370f921b0ac3b"}},
		"a user's bundle with a name like the agent's": {"fleet-agent-nginx", "", newSet("default-fleet-agent-nginx")},
		"the agent's own":           {"fleet-agent-east", "", set{"fleet-agent-bootstrap", "f399d0b310fbfb28e9667312fdc7a33954e2b8c8"}},
		"the agent's under a scope": {"fleet-agent-east", "cattle-fleet-local-system", set{"fleet-agent-bootstrap-cattle-fleet-local-system", "362023f752e7f1989d8b652e029bd2c658ae7c44"}},
		"a bundle under a scope":    {"hello", "s", set{"default-hello-s", "016f0d7f8547c7f7e484ca4881ba9bb5a8661818"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := Options{OwnBundle: "fleet-agent-east", Scope: test.scope}.setOf(test.name)
			if got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestClassify(t *testing.T) {
	tests := map[string]struct {
		err  string
		want bool
	}{
		"timeout":                      {"release x failed: timed out waiting for the condition", true},
		"data that does not validate":  {"error validating data: x", true},
		"another Kubernetes":           {"chart requires kubeVersion: <1.20.0 which is incompatible with Kubernetes v1.36.3", true},
		"object of another owner":      {`annotation validation error: missing key "meta.helm.sh/release-name"`, true},
		"rolled back":                  {"release x failed, and has been rolled back due to atomic being set: y", true},
		"template is not YAML":         {"YAML parse error on x/templates/a.yaml: z", true},
		"kustomization is not YAML":    {"MalformedYAMLError: yaml: line 2", true},
		"a field that does not exist":  {`strict decoding error: unknown field "spec.x"`, true},
		"a StatefulSet's fixed fields": {"Forbidden: updates to statefulset spec for fields other than 'replicas' are forbidden", true},
		"a PVC's fixed fields":         {"Forbidden: spec is immutable after creation except resources.requests", true},
		"API server is unreachable":    {"dial tcp 10.0.0.1:6443: connect: connection refused", false},
		"an account without rights":    {`configmaps is forbidden: User "x" cannot create resource`, false},
		"unknown kind":                 {`no matches for kind "X" in version "a/v1"`, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cause := errors.New(test.err)
			got := classify(fmt.Errorf("wrapped: %w", cause))
			if asFailure(got) != test.want {
				t.Errorf("recognised: %t", asFailure(got))
			}
			if !errors.Is(got, cause) {
				t.Error("the cause is lost")
			}
		})
	}
	if classify(nil) != nil {
		t.Error("no error became one")
	}
}

func TestLongMessage_IsTruncated(t *testing.T) {
	got := message(errors.New(strings.Repeat("ä", messageLimit)))
	if len(got) > messageLimit+len("…") || !strings.HasSuffix(got, "ä…") {
		t.Errorf("%d bytes, ending in %q", len(got), got[len(got)-8:])
	}
	if got := message(errors.New("short")); got != "short" {
		t.Errorf("got %q", got)
	}
}

func TestRedaction(t *testing.T) {
	values := map[string]any{
		"password": "hunter2hunter2", "short": "abc", "flag": true, "none": nil, "port": int64(12345678),
		"list": []any{"in-a-list", map[string]any{"deep": "hunter2"}}, "amount": float64(87654321),
		"pem": "-----BEGIN KEY-----\n  MIIEvQIBADAN\r\nab\n-----END KEY-----\n", "quoted": "say \"hi\"<\tthere>", "whole": "one-line\n",
	}
	tests := map[string]struct{ in, want string }{
		"a value":                         {"got hunter2hunter2, want digits", "got <redacted>, want digits"},
		"the longer of two values":        {"hunter2hunter2 hunter2", "<redacted> <redacted>"},
		"a value in a list":               {"x in-a-list y", "x <redacted> y"},
		"a number":                        {"port 12345678", "port <redacted>"},
		"base64 of a value":               {"aHVudGVyMg==", "<redacted>"},
		"short value stays":               {"abc true nil", "abc true nil"},
		"lines of a text, indented":       {"    -----BEGIN KEY-----\n    MIIEvQIBADAN\n    ab\n", "    <redacted>\n    <redacted>\n    ab\n"},
		"lines of a text, escaped":        {`"-----BEGIN KEY-----\n  MIIEvQIBADAN\r\nab\n-----END KEY-----\n"`, `"<redacted>"`},
		"a text without its end":          {"one-line, two", "<redacted>, two"},
		"a text as Go quotes it":          {fmt.Sprintf("%q", "say \"hi\"<\tthere>"), `"<redacted>"`},
		"a text as JSON quotes it":        {`"say \"hi\"\u003c\tthere\u003e"`, `"<redacted>"`},
		"a number with a fraction's type": {"amount 87654321", "amount <redacted>"},
		"no value in the text":            {"fine", "fine"},
	}
	r := redactionOf(values)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := r.clean(test.in); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	t.Run("an error stays what it is", func(t *testing.T) {
		err := r.wrap(classify(errors.New("YAML parse error: hunter2hunter2")))
		if !asFailure(err) || err.Error() != "YAML parse error: <redacted>" {
			t.Errorf("got %v", err)
		}
		if r.wrap(nil) != nil {
			t.Error("no error became one")
		}
	})
	t.Run("nothing is taken out by no values", func(t *testing.T) {
		if got := redactionOf(nil, map[string]any{"a": ""}).clean("a b"); got != "a b" {
			t.Errorf("got %q", got)
		}
	})
}

func TestWantedNamespace(t *testing.T) {
	// "ours" and "note" were set by this bundle, "old" by another writer, "shared" by another bundle.
	noted := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	current := func() *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: "web",
			Labels: map[string]string{corev1.LabelMetadataName: "web", "pod-security.kubernetes.io/enforce": "baseline",
				"old": "x", "ours": "y", "shared": "z"},
			Annotations: map[string]string{"note": "y", "others": "z"},
			ManagedFields: []metav1.ManagedFieldsEntry{
				noted("kubectl", `{"f:metadata":{"f:labels":{"f:old":{}}}}`),
				noted(namespaceManager("hello"), `{"f:metadata":{"f:labels":{"f:ours":{},"f:pod-security.kubernetes.io/enforce":{}},"f:annotations":{".":{},"f:note":{}}}}`),
				noted(namespaceManager("other"), `{"f:metadata":{"f:labels":{"f:shared":{}}}}`),
				noted(namespaceManager("hello"), `no JSON`),
			},
		}}
	}
	labels := func(change map[string]string) map[string]string {
		wanted := current().Labels
		for key, value := range change {
			wanted[key] = value
			if value == "" {
				delete(wanted, key)
			}
		}
		return wanted
	}
	kept := map[string]string{"note": "y"}
	tests := map[string]struct {
		options     fleet.BundleDeploymentOptions
		labels      map[string]string
		annotations map[string]string
		changed     bool
	}{
		"labels already set: no change": {
			fleet.BundleDeploymentOptions{NamespaceLabels: map[string]string{"ours": "y"}, NamespaceAnnotations: kept}, labels(nil), current().Annotations, false},
		"no labels wanted: only own labels are removed": {
			fleet.BundleDeploymentOptions{}, labels(map[string]string{"ours": ""}), map[string]string{"others": "z"}, true},
		"label renamed: old label is removed": {
			fleet.BundleDeploymentOptions{NamespaceLabels: map[string]string{"new": "z"}, NamespaceAnnotations: kept},
			labels(map[string]string{"ours": "", "new": "z"}), current().Annotations, true},
		"label of another writer: is overwritten": {
			fleet.BundleDeploymentOptions{NamespaceLabels: map[string]string{"ours": "y", "old": "new"}, NamespaceAnnotations: kept},
			labels(map[string]string{"old": "new"}), current().Annotations, true},
		"pod security label in a bundle: is ignored": {
			fleet.BundleDeploymentOptions{NamespaceLabels: map[string]string{"ours": "y", "pod-security.kubernetes.io/enforce": "privileged", "pod-security.kubernetes.io/warn": "x"}, NamespaceAnnotations: kept},
			labels(nil), current().Annotations, false},
		"annotations: are handled like labels": {
			fleet.BundleDeploymentOptions{NamespaceLabels: map[string]string{"ours": "y"}, NamespaceAnnotations: map[string]string{"a": "b"}},
			labels(nil), map[string]string{"a": "b", "others": "z"}, true},
		"the name cannot be changed": {
			fleet.BundleDeploymentOptions{NamespaceLabels: map[string]string{corev1.LabelMetadataName: "other", "ours": "y"}, NamespaceAnnotations: kept},
			labels(nil), current().Annotations, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			input := current()
			got, changed := wantedNamespace(input, &test.options, namespaceManager("hello"))
			if diff := cmp.Diff([]any{test.labels, test.annotations, test.changed}, []any{got.Labels, got.Annotations, changed}); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(current(), input); diff != "" {
				t.Errorf("the input was changed:\n%s", diff)
			}
		})
	}
}

func TestNamespaceWithoutLabels_GetsLabels(t *testing.T) {
	got, changed := wantedNamespace(&corev1.Namespace{}, &fleet.BundleDeploymentOptions{NamespaceLabels: map[string]string{"a": "b"}}, "m")
	if diff := cmp.Diff(map[string]string{"a": "b"}, got.Labels); diff != "" || !changed || got.Annotations != nil {
		t.Errorf("changed %t, annotations %v, labels:\n%s", changed, got.Annotations, diff)
	}
}

func TestDependencies(t *testing.T) {
	named := func(name string, change func(*fleet.BundleDeployment)) *fleet.BundleDeployment {
		return deployment(func(bd *fleet.BundleDeployment) {
			bd.Name = name
			bd.Labels[fleet.LabelBundleName] = name
			monitored(&bd.Status, noon, report{Ready: true, NonModified: true}, 0)
			if change != nil {
				change(bd)
			}
		})
	}
	all := []*fleet.BundleDeployment{
		named("well", nil),
		named("modified", func(bd *fleet.BundleDeployment) { bd.Status.NonModified = false }),
		named("labelled", func(bd *fleet.BundleDeployment) { bd.Labels["tier"] = "db"; bd.Status.Ready = false }),
		named("elsewhere", func(bd *fleet.BundleDeployment) { bd.Labels[fleet.LabelBundleNamespace] = "other" }),
	}
	tests := map[string]struct {
		refs []fleet.BundleRef
		want string
	}{
		"nothing":                              {nil, ""},
		"an empty reference":                   {[]fleet.BundleRef{{}}, ""},
		"one that is ready":                    {[]fleet.BundleRef{{Name: "well"}}, ""},
		"one that is modified":                 {[]fleet.BundleRef{{Name: "well"}, {Name: "modified"}}, "dependent bundle(s) are not ready: [modified]"},
		"one that may be modified":             {[]fleet.BundleRef{{Name: "modified", AcceptedStates: []fleet.BundleState{fleet.Ready, fleet.Modified}}}, ""},
		"one that may only be modified":        {[]fleet.BundleRef{{Name: "well", AcceptedStates: []fleet.BundleState{fleet.Modified}}}, "dependent bundle(s) are not ready: [well]"},
		"one by its labels":                    {[]fleet.BundleRef{{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "db"}}}}, "dependent bundle(s) are not ready: [labelled]"},
		"two references to one":                {[]fleet.BundleRef{{Name: "modified"}, {Name: "modified"}}, "dependent bundle(s) are not ready: [modified]"},
		"one that does not exist":              {[]fleet.BundleRef{{Name: "nobody"}}, "list bundledeployments: no bundles matching labels fleet.cattle.io/bundle-name=nobody,fleet.cattle.io/bundle-namespace=fleet-default in namespace fleet-default"},
		"one of another namespace":             {[]fleet.BundleRef{{Name: "elsewhere"}}, "list bundledeployments: no bundles matching labels fleet.cattle.io/bundle-name=elsewhere,fleet.cattle.io/bundle-namespace=fleet-default in namespace fleet-default"},
		"name and labels of different bundles": {[]fleet.BundleRef{{Name: "well", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "db"}}}}, "list bundledeployments: no bundles matching labels fleet.cattle.io/bundle-name=well,fleet.cattle.io/bundle-namespace=fleet-default,tier=db in namespace fleet-default"},
		"invalid selector":                     {[]fleet.BundleRef{{Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "x"}}}}}, `reading the selector of a dependency: "x" is not a valid label selector operator`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bd := deployment(func(bd *fleet.BundleDeployment) { bd.Spec.DependsOn = test.refs })
			before := bd.DeepCopy()
			got := ""
			if err := dependencies(bd, all); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if diff := cmp.Diff(before, bd); diff != "" {
				t.Errorf("the input was changed:\n%s", diff)
			}
		})
	}
}

func TestBackoff(t *testing.T) {
	chance := 0.0
	b := newBackoff(func() float64 { return chance })
	var got []time.Duration
	for range 10 {
		got = append(got, b.When("x"))
	}
	want := []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second,
		16 * time.Second, 32 * time.Second, 64 * time.Second, 2 * time.Minute, 2 * time.Minute}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if b.NumRequeues("x") != 10 || b.NumRequeues("y") != 0 {
		t.Errorf("counts: %d %d", b.NumRequeues("x"), b.NumRequeues("y"))
	}
	b.Forget("x")
	chance = 0.999
	if got := b.When("x"); got < 749*time.Millisecond || got >= 750*time.Millisecond {
		t.Errorf("spread to %s", got)
	}
}

func TestOptionsComplete(t *testing.T) {
	tests := map[string]struct {
		in   Options
		want string
	}{
		"nothing":              {Options{}, "Hub and Local"},
		"no namespace":         {Options{Hub: &rest.Config{}, Local: &rest.Config{}, AgentNamespace: "a"}, "Namespace and AgentNamespace"},
		"no agent's namespace": {Options{Hub: &rest.Config{}, Local: &rest.Config{}, Namespace: "a"}, "Namespace and AgentNamespace"},
		"negative workers":     {Options{Hub: &rest.Config{}, Local: &rest.Config{}, Namespace: "a", AgentNamespace: "b", Workers: -1}, "negative"},
		"all required options": {Options{Hub: &rest.Config{}, Local: &rest.Config{}, Namespace: "a", AgentNamespace: "b"}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := test.in.complete()
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	got, err := Options{Hub: &rest.Config{}, Local: &rest.Config{}, Namespace: "a", AgentNamespace: "b"}.complete()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]any{5, 15 * time.Minute}, []any{got.Workers, got.GarbageCollectionInterval}); diff != "" {
		t.Error(diff)
	}
	got.OnWatching(nil)
	got.OnDeploy(Succeeded, time.Second)
	got.Log.Info("nobody hears this")
	if chance := got.Random(); got.Clock().IsZero() || chance < 0 || chance >= 1 {
		t.Errorf("clock %s chance %f", got.Clock(), chance)
	}
}

// namespaceWith returns a namespace with labels, nil unless it exists.
func namespaceWith(exists bool, labels map[string]string) *corev1.Namespace {
	if !exists {
		return nil
	}
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: labels}}
}
