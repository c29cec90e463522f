package release

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
)

// stored returns a revision of a release.
func stored(number int, status release.Status) *release.Release {
	return &release.Release{
		Name: "hello", Namespace: "web", Version: number, Info: &release.Info{Status: status}, Manifest: fmt.Sprintf("# %d", number),
		Chart: &chart.Chart{Metadata: &chart.Metadata{Name: "hello", Version: "0.1.0", Annotations: map[string]string{"a": "b"}}},
	}
}

// historyOf returns a loaded history of the given revisions.
func historyOf(t *testing.T, client *fake.Clientset, revisions ...*release.Release) *History {
	t.Helper()
	secrets := client.CoreV1().Secrets("web")
	h := &History{secrets: secrets, Key: placement.Release{Namespace: "web", Name: "hello"}, clock: func() time.Time { return deploytest.Noon() }}
	for _, r := range revisions {
		if err := h.Create(SecretName(r.Name, r.Version), r); err != nil {
			t.Fatal(err)
		}
	}
	loaded, err := LoadHistory(t.Context(), secrets, h.Key, h.clock, nil)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

func TestStoredReleases_AreReadableByHelmAndAgent(t *testing.T) {
	client := fake.NewClientset()
	secrets := client.CoreV1().Secrets("web")
	h := historyOf(t, client, stored(1, release.StatusDeployed))
	helm := storage.Init(driver.NewSecrets(secrets))
	theirs, err := helm.Get("hello", 1)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := h.Get(SecretName("hello", 1))
	if err != nil {
		t.Fatal(err)
	}
	ours.Labels, theirs.Labels = nil, nil
	if diff := cmp.Diff(ours, theirs, cmp.AllowUnexported(chart.Chart{})); diff != "" {
		t.Errorf("Helm reads something else:\n%s", diff)
	}
	if err := helm.Create(stored(2, release.StatusFailed)); err != nil {
		t.Fatal(err)
	}
	if h, err = LoadHistory(t.Context(), secrets, h.Key, h.clock, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]revision{{1, release.StatusDeployed}, {2, release.StatusFailed}}, h.summary()); diff != "" {
		t.Error(diff)
	}
	if h.Last().Manifest != "# 2" || h.manifests()[1] != "# 1" {
		t.Errorf("manifests %v", h.manifests())
	}
}

// TestStoredRelease_OmitsCRDs stores a chart whose CRDs are larger than a Secret.
func TestStoredRelease_OmitsCRDs(t *testing.T) {
	names := func(files []*chart.File) (found []string) {
		for _, f := range files {
			found = append(found, f.Name)
		}
		return found
	}
	r := stored(1, release.StatusDeployed)
	for _, name := range []string{"README.md", "crds/a.yaml", "crds.yaml", "crds/deep/b.yaml", "files/crds/c.yaml"} {
		r.Chart.Files = append(r.Chart.Files, &chart.File{Name: name, Data: []byte(name)})
	}
	r.Chart.Templates = []*chart.File{{Name: "templates/crds/d.yaml", Data: []byte("d")}}
	before := names(r.Chart.Files)
	h := historyOf(t, fake.NewClientset(), r)
	if diff := cmp.Diff([]string{"README.md", "crds.yaml", "files/crds/c.yaml"}, names(h.Last().Chart.Files)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(r.Chart.Templates, h.Last().Chart.Templates); diff != "" {
		t.Errorf("templates (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, names(r.Chart.Files)); diff != "" {
		t.Errorf("the release itself was changed:\n%s", diff)
	}
	text, err := Encode(&release.Release{Name: "hello", Version: 1, Info: &release.Info{}})
	if err != nil || len(text) == 0 {
		t.Errorf("a release without a chart: %v", err)
	}
}

func TestReleaseSecret_HasHelmsFormat(t *testing.T) {
	client := fake.NewClientset()
	h := historyOf(t, client, stored(1, release.StatusPendingInstall))
	get := func() *corev1.Secret {
		t.Helper()
		secret, err := client.CoreV1().Secrets("web").Get(t.Context(), "sh.helm.release.v1.hello.v1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return secret
	}
	at := fmt.Sprint(deploytest.Noon().Unix())
	created := map[string]string{"name": "hello", "owner": "helm", "status": "pending-install", "version": "1", "createdAt": at}
	if diff := cmp.Diff(created, get().Labels); diff != "" || get().Type != "helm.sh/release.v1" {
		t.Errorf("%s %s", diff, get().Type)
	}
	last := h.Last()
	last.Info.Status = release.StatusDeployed
	last.Labels["createdAt"] = "system labels are not taken over"
	last.Labels["custom"] = "kept"
	if err := h.Update(SecretName("hello", 1), last); err != nil {
		t.Fatal(err)
	}
	updated := map[string]string{"name": "hello", "owner": "helm", "status": "deployed", "version": "1", "modifiedAt": at, "custom": "kept"}
	if diff := cmp.Diff(updated, get().Labels); diff != "" {
		t.Error(diff)
	}
}

func TestHistory_ReadsSecretsOnce(t *testing.T) {
	client := fake.NewClientset()
	h := historyOf(t, client, stored(2, release.StatusDeployed), stored(1, release.StatusSuperseded), stored(10, release.StatusFailed))
	client.ClearActions()
	s := h.storage(2)
	number := func(r *release.Release, err error) string {
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint(r.Version)
	}
	count := func(list []*release.Release, err error) string {
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint(len(list))
	}
	tests := map[string]struct{ got, want string }{
		"the last":                    {number(s.Last("hello")), "10"},
		"the deployed one":            {number(s.Deployed("hello")), "2"},
		"all":                         {count(s.History("hello")), "3"},
		"all of another release":      {count(s.History("other")), driver.ErrReleaseNotFound.Error()},
		"a missing revision":          {number(s.Get("hello", 3)), driver.ErrReleaseNotFound.Error()},
		"an existing revision":        {number(s.Get("hello", 1)), "1"},
		"deleting a missing revision": {number(s.Delete("hello", 3)), driver.ErrReleaseNotFound.Error()},
		"all that are superseded":     {count(h.Query(map[string]string{"name": "hello", "owner": "helm", "status": "superseded"})), "1"},
		"none that are uninstalling":  {count(h.Query(map[string]string{"name": "hello", "owner": "helm", "status": "uninstalling"})), driver.ErrReleaseNotFound.Error()},
		"the deployed one, as a list": {count(s.ListDeployed()), "1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.got != test.want {
				t.Errorf("got %s, want %s", test.got, test.want)
			}
		})
	}
	if actions := client.Actions(); len(actions) > 0 {
		t.Errorf("the API server was asked: %v", actions)
	}
}

func TestNewRevision_KeepsAtMostTwo(t *testing.T) {
	client := fake.NewClientset()
	h := historyOf(t, client, stored(2, release.StatusDeployed), stored(1, release.StatusSuperseded), stored(10, release.StatusFailed))
	if err := h.storage(2).Create(stored(11, release.StatusPendingUpgrade)); err != nil {
		t.Fatal(err)
	}
	// The deployed revision is not deleted.
	want := []revision{{2, release.StatusDeployed}, {11, release.StatusPendingUpgrade}}
	if diff := cmp.Diff(want, h.summary()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, historyOf(t, client).summary()); diff != "" {
		t.Errorf("what is stored is something else:\n%s", diff)
	}
	if err := h.Create(SecretName("hello", 11), stored(11, release.StatusPendingUpgrade)); !apierrors.IsAlreadyExists(err) {
		t.Errorf("the same revision twice: %v", err)
	}
}

func TestUnreadableRevision_IsOverwritten(t *testing.T) {
	client := fake.NewClientset(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: SecretName("hello", 1), Namespace: "web", Labels: map[string]string{"owner": "helm", "name": "hello", "version": "1"}},
		Data:       map[string][]byte{"release": []byte("nonsense")},
	})
	h := historyOf(t, client)
	if h.Last() != nil || nextStep(h.Last()) != Install {
		t.Errorf("history is %v", h.summary())
	}
	if err := h.Create(SecretName("hello", 1), stored(1, release.StatusPendingInstall)); err != nil {
		t.Fatal(err)
	}
	if again := historyOf(t, client); again.Last() == nil || again.Last().Version != 1 {
		t.Errorf("not written over: %v", again.summary())
	}
}

func TestForget_DeletesHistoryOnly(t *testing.T) {
	client := fake.NewClientset()
	h := historyOf(t, client, stored(1, release.StatusSuperseded), stored(2, release.StatusDeployed))
	if err := client.CoreV1().Secrets("web").Delete(t.Context(), SecretName("hello", 1), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := (&Releaser{}).Forget(h); err != nil { // one is gone already
		t.Fatal(err)
	}
	list, err := client.CoreV1().Secrets("web").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) > 0 {
		t.Errorf("left over: %v %v", list.Items, err)
	}
}

func TestDecodeRelease(t *testing.T) {
	zip := func(text string) string {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		_, _ = w.Write([]byte(text))
		_ = w.Close()
		return base64.StdEncoding.EncodeToString(out.Bytes())
	}
	const valid = `{"name":"a","version":1,"info":{"status":"deployed"}}`
	tests := map[string]struct {
		data string
		ok   bool
	}{
		"a release":      {zip(valid), true},
		"not compressed": {base64.StdEncoding.EncodeToString([]byte(valid)), true},
		"nothing":        {"", false},
		"not base64":     {"!", false},
		"not gzip":       {base64.StdEncoding.EncodeToString([]byte{0x1f, 0x8b, 8}), false},
		"not JSON":       {zip("x"), false},
		"no name":        {zip(`{"version":1,"info":{}}`), false},
		"no version":     {zip(`{"name":"a","info":{}}`), false},
		"no info":        {zip(`{"name":"a","version":1}`), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Decode(&corev1.Secret{Data: map[string][]byte{"release": []byte(test.data)}})
			if (err == nil) != test.ok || (got != nil) != test.ok {
				t.Errorf("got %v %v", got, err)
			}
		})
	}
}

func FuzzDecodeRelease(f *testing.F) {
	text, err := Encode(stored(1, release.StatusDeployed))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte("H4sI"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := Decode(&corev1.Secret{Data: map[string][]byte{"release": text}})
		if err != nil {
			return
		}
		again, err := Encode(r)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		back, err := Decode(&corev1.Secret{Data: map[string][]byte{"release": again}})
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		first, _ := json.Marshal(r)
		second, _ := json.Marshal(back)
		if !bytes.Equal(first, second) {
			t.Errorf("%s became %s", first, second)
		}
	})
}
