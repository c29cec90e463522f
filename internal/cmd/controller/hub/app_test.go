package hub

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/remote"
	"github.com/fleet-hub/fleet/internal/cmd/env"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	kubeconfigs "github.com/fleet-hub/fleet/internal/kube/kubeconfig"
	"github.com/fleet-hub/fleet/internal/kube/kubetest"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	clusterrule "github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// server is an API server with fixed answers. Other paths are 404.
type server struct {
	mu      sync.Mutex
	answers map[string][]any // by path, in this order; the last one is repeated. An int is a status code.
	asked   []string
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r.Method+" "+r.URL.Path)
	w.Header().Set("Content-Type", "application/json")
	answers := s.answers[r.URL.Path]
	if len(answers) == 0 {
		answers = []any{http.StatusNotFound}
	}
	if len(answers) > 1 {
		s.answers[r.URL.Path] = answers[1:]
	}
	if code, ok := answers[0].(int); ok {
		w.WriteHeader(code)
		answers[0] = metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Code: int32(code), Reason: reasons()[code], Message: string(reasons()[code])}
		defer func() { answers[0] = code }()
	}
	_ = json.NewEncoder(w).Encode(answers[0])
}

func reasons() map[int]metav1.StatusReason {
	return map[int]metav1.StatusReason{
		http.StatusNotFound: metav1.StatusReasonNotFound, http.StatusForbidden: metav1.StatusReasonForbidden,
		http.StatusUnauthorized: metav1.StatusReasonUnauthorized, http.StatusServiceUnavailable: metav1.StatusReasonServiceUnavailable,
	}
}

const (
	groupPath  = "/apis/fleet.cattle.io/v1alpha1"
	configPath = "/api/v1/namespaces/cattle-fleet-system/configmaps/fleet-controller"
)

// served returns the discovery document of our group with these resources.
func served(resources ...string) metav1.APIResourceList {
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: "fleet.cattle.io/v1alpha1"}
	for _, resource := range resources {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: resource})
	}
	return list
}

func everything() metav1.APIResourceList {
	return served("bundledeployments", "bundlenamespacemappings", "bundles", "clustergroups", "clusterregistrations",
		"clusterregistrationtokens", "clusters", "clusters/status", "contents")
}

func configMap(text string) corev1.ConfigMap {
	return corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "cattle-fleet-system", Name: "fleet-controller"}, Data: map[string]string{"config": text},
	}
}

func options(t *testing.T, s http.Handler, log io.Writer) Options {
	t.Helper()
	listening := httptest.NewServer(s)
	t.Cleanup(listening.Close)
	return Options{
		Own: kube.Own{Config: kube.Tune(&rest.Config{Host: listening.URL})}, Env: env.Controller{Namespace: "cattle-fleet-system"},
		Version: "test", Log: slog.New(slog.NewTextHandler(log, nil)),
	}
}

func TestCheck(t *testing.T) {
	tests := map[string]struct {
		answers map[string][]any
		is      error
		says    string
		logs    string
	}{
		"everything exists": {answers: map[string][]any{groupPath: {everything()}, configPath: {configMap("{}")}}},
		"no ConfigMap":      {answers: map[string][]any{groupPath: {everything()}}},
		"empty ConfigMap":   {answers: map[string][]any{groupPath: {everything()}, configPath: {configMap("")}}},
		"CRDs are installed a moment later": {
			answers: map[string][]any{groupPath: {http.StatusNotFound, served("clusters"), everything()}},
			logs:    `msg="waiting for the API server and the CRDs" error="CustomResourceDefinitions are missing or not established: bundledeployments.fleet.cattle.io, `,
		},
		"busy server": {answers: map[string][]any{groupPath: {http.StatusServiceUnavailable, http.StatusTooManyRequests, http.StatusInternalServerError, everything()}}},
		"rejected credential": {
			answers: map[string][]any{groupPath: {http.StatusUnauthorized}}, says: "discovering the kinds of fleet.cattle.io/v1alpha1: ",
		},
		"forbidden ConfigMap": {
			answers: map[string][]any{groupPath: {everything()}, configPath: {http.StatusForbidden}},
			says:    "reading ConfigMap cattle-fleet-system/fleet-controller: ",
		},
		"malformed configuration": {
			answers: map[string][]any{groupPath: {everything()}, configPath: {configMap("- a")}}, is: ErrConfigMalformed,
			says: "the configuration is malformed: ConfigMap cattle-fleet-system/fleet-controller, key config: ",
		},
		"ignored value is logged": {
			answers: map[string][]any{groupPath: {everything()}, configPath: {configMap("gitClientTimeout: soon")}},
			logs:    "gitClientTimeout: soon is not a duration",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			_, err := Check(t.Context(), options(t, &server{answers: test.answers}, &log), time.Minute)
			switch {
			case test.says == "" && err != nil:
				t.Fatal(err)
			case test.says != "" && (err == nil || !strings.HasPrefix(err.Error(), test.says)):
				t.Errorf("it says\n\t%v\nand not\n\t%s", err, test.says)
			case test.is != nil && !errors.Is(err, test.is):
				t.Errorf("it is no %v", test.is)
			}
			if !strings.Contains(log.String(), test.logs) {
				t.Errorf("the log is %s", log.String())
			}
		})
	}
}

// A controller that lost its lease in an overload starts again while it lasts.
func TestCheck_OverloadedServerAsksForALongPause_IsAskedAgainSoon(t *testing.T) {
	t.Parallel()
	s, once := &server{answers: map[string][]any{groupPath: {everything()}}}, sync.Once{}
	_, err := Check(t.Context(), options(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		isFirst := false
		once.Do(func() { isFirst = true })
		if !isFirst {
			s.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	}), io.Discard), 12*time.Second)
	if err != nil {
		t.Error(err)
	}
}

// On a busy machine the first answer may come after a short timeout, so the timeout is longer.
func TestCheck_MissingCRDs_TimesOut(t *testing.T) {
	t.Parallel()
	for within := 2 * time.Second; ; within *= 3 {
		s := &server{answers: map[string][]any{groupPath: {served("clusters", "bundles", "contents")}}}
		_, err := Check(t.Context(), options(t, s, io.Discard), within)
		if !errors.Is(err, ErrCRDsMissing) && within < time.Minute {
			t.Logf("within %s: %v", within, err)
			continue
		}
		want := "CustomResourceDefinitions are missing or not established: bundledeployments.fleet.cattle.io, " +
			"bundlenamespacemappings.fleet.cattle.io, clustergroups.fleet.cattle.io, clusterregistrations.fleet.cattle.io, " +
			"clusterregistrationtokens.fleet.cattle.io; install them with: " +
			"helm install fleet-crd charts/fleet-crd --namespace cattle-fleet-system --create-namespace (waited " + within.String() + ")"
		if !errors.Is(err, ErrCRDsMissing) || err.Error() != want {
			t.Errorf("it says\n\t%v\nand not\n\t%s", err, want)
		}
		return
	}
}

func TestCheck_UnreachableServer_TimesOut(t *testing.T) {
	o := options(t, http.NotFoundHandler(), io.Discard)
	o.Own.Config.Host = "http://127.0.0.1:1"
	_, err := Check(t.Context(), o, 300*time.Millisecond)
	if !errors.Is(err, foreign.ErrUnreachable) || !strings.HasPrefix(err.Error(), "connecting to http://127.0.0.1:1: ") ||
		!strings.HasSuffix(err.Error(), "(waited 300ms)") {
		t.Errorf("error %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Check(ended, o, time.Hour); err == nil {
		t.Error("want an error after the end")
	}
}

func TestNew(t *testing.T) {
	o := options(t, &server{answers: map[string][]any{configPath: {configMap("apiServerURL: https://hub")}}}, io.Discard)
	a, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	want := config.Default("test")
	want.APIServerURL = "https://hub"
	if diff := cmp.Diff(want, a.Config.Get()); diff != "" {
		t.Errorf("the configuration (-want +got):\n%s", diff)
	}
	if a.Namespaces.System != "cattle-fleet-system" || a.Namespaces.Registration != "cattle-fleet-clusters-system" {
		t.Errorf("namespaces %+v", a.Namespaces)
	}
	if time.Since(a.Clock()) > time.Minute {
		t.Errorf("the clock says %s", a.Clock())
	}
	o.Own.Config.Host = "http://127.0.0.1:1"
	if _, err := New(t.Context(), o); !errors.Is(err, foreign.ErrUnreachable) {
		t.Errorf("error %v", err)
	}
	o.Config = &want // the check has read it
	if a, err := New(t.Context(), o); err != nil || !cmp.Equal(want, a.Config.Get()) {
		t.Errorf("with a configuration: error %v", err)
	}
}

func TestStart_ErrorNamesKindsThatCannotBeListed(t *testing.T) {
	o := options(t, &server{answers: map[string][]any{
		"/api/v1/secrets": {http.StatusForbidden}, groupPath + "/clusters": {http.StatusForbidden}, "/version": {map[string]string{}},
	}}, io.Discard)
	a, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range a.scopes {
		if err := s.caches.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	go a.secrets.RunWithContext(t.Context())
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for strings.Count(strings.ToLower(textOf(a.unsynced())), "forbidden") < 2 { // until the server has refused both lists
		select {
		case <-again.C:
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
	err = awaitSync(t.Context(), time.Millisecond, a.unsynced, a.stillFilling)
	if !errors.Is(err, ErrNotSynced) {
		t.Fatalf("error %v", err)
	}
	for _, part := range []string{"Cluster (", "Forbidden", "Secret (metadata) ("} {
		if !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(part)) {
			t.Errorf("%q is not in %v", part, err)
		}
	}
	if strings.Contains(err.Error(), "Bundle") {
		t.Errorf("a kind nobody asked for is watched: %v", err)
	}
}

// Long lists are awaited, however long they take. A kind that cannot be listed is an error, also if it fails later.
func TestAwaitSync_WaitsForLongLists(t *testing.T) {
	refused := &failure{errors.New("no")}
	tests := map[string]struct {
		// at says how a kind is after it was told of so many times; it is there at the end.
		at   []pending
		want error
		told int
	}{
		"listed at last":         {at: []pending{{kind: "x"}, {kind: "x"}, {kind: "x"}}, told: 3},
		"refused from the start": {at: []pending{{"x", refused}}, want: ErrNotSynced},
		"refused later":          {at: []pending{{kind: "x"}, {"x", refused}}, want: ErrNotSynced, told: 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			told := 0
			missing := func() []pending {
				if told == len(test.at) {
					return nil
				}
				return test.at[told : told+1]
			}
			err := awaitSync(t.Context(), time.Millisecond, missing, func(kinds string) {
				if kinds != "x" {
					t.Errorf("told of %s", kinds)
				}
				told++
			})
			if !errors.Is(err, test.want) || told != test.told {
				t.Errorf("error %v, told %d times", err, told)
			}
		})
	}
}

func TestAwaitSync_EndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	tell := func(kinds string) { t.Errorf("told of %s", kinds) }
	if err := awaitSync(ctx, time.Hour, func() []pending { return []pending{{kind: "x"}} }, tell); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if err := awaitSync(ctx, time.Hour, func() []pending { return nil }, tell); err != nil {
		t.Errorf("nothing is missing, and yet: %v", err)
	}
}

func TestKubeconfigSecret(t *testing.T) {
	tests := map[string]struct {
		spec fleet.ClusterSpec
		want types.NamespacedName
	}{
		"none":                     {fleet.ClusterSpec{}, types.NamespacedName{}},
		"none, in a namespace":     {fleet.ClusterSpec{KubeConfigSecretNamespace: "n"}, types.NamespacedName{}},
		"beside the Cluster":       {fleet.ClusterSpec{KubeConfigSecret: "s"}, types.NamespacedName{Namespace: "ws", Name: "s"}},
		"in a namespace of choice": {fleet.ClusterSpec{KubeConfigSecret: "s", KubeConfigSecretNamespace: "n"}, types.NamespacedName{Namespace: "n", Name: "s"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cluster := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ws"}, Spec: test.spec}
			if got := clusterrule.KubeconfigSecret(cluster); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestIndexes(t *testing.T) {
	a, err := New(t.Context(), options(t, http.NotFoundHandler(), io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	clusters := []*fleet.Cluster{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "c1"}, Spec: fleet.ClusterSpec{ClientID: "id", KubeConfigSecret: "kc"}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "c2"}, Spec: fleet.ClusterSpec{KubeConfigSecret: "kc", KubeConfigSecretNamespace: "other"}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "c3"}, Spec: fleet.ClusterSpec{ClientID: "id"}},
	}
	for _, cluster := range clusters {
		if err := a.Clusters.Informer().GetIndexer().Add(cluster); err != nil {
			t.Fatal(err)
		}
	}
	for query, want := range map[[2]string][]*fleet.Cluster{
		{ClustersByClientID, "ws/id"}:       clusters[:1],
		{ClustersByClientID, "other/id"}:    clusters[2:],
		{ClustersByClientID, "ws/"}:         {},
		{ClustersByKubeconfig, "ws/kc"}:     clusters[:1],
		{ClustersByKubeconfig, "other/kc"}:  clusters[1:2],
		{ClustersByKubeconfig, "ws/"}:       {},
		{ClustersByKubeconfig, "nobody/kc"}: {},
	} {
		got, err := a.Clusters.Cache().GetByIndex(query[0], query[1])
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", query, diff)
		}
	}
	secret := func(namespace string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "kc", ResourceVersion: "7"}}
	}
	if diff := cmp.Diff([]types.NamespacedName{{Namespace: "ws", Name: "c2"}}, a.clustersOf(secret("other"))); diff != "" {
		t.Errorf("woken (-want +got):\n%s", diff)
	}
	if got := a.clustersOf(secret("nobody")); len(got) > 0 {
		t.Errorf("woken %v", got)
	}
	if err := a.secrets.GetIndexer().Add(secret("ws")); err != nil {
		t.Fatal(err)
	}
	if got := a.SecretVersion(types.NamespacedName{Namespace: "ws", Name: "kc"}); got != "7" {
		t.Errorf("version %q", got)
	}
	if got := a.SecretVersion(types.NamespacedName{Namespace: "nobody", Name: "kc"}); got != "" {
		t.Errorf("version %q", got)
	}
}

func TestDialer(t *testing.T) {
	kubeconfig := func(cluster string) string {
		return `{"apiVersion":"v1","kind":"Config","current-context":"x","contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}],` +
			`"clusters":[{"name":"c","cluster":{"server":"https://127.0.0.1:1"` + cluster + `}}],"users":[{"name":"u","user":{"token":"t"}}]}`
	}
	insecure := kubeconfig(`,"insecure-skip-tls-verify":true`)
	tests := map[string]struct {
		kubeconfig, mode string
		allow            bool
		remote           bool // it belongs to another cluster than the hub's
		want             error
	}{
		"usable":                                {kubeconfig: kubeconfig(""), mode: "system-store"},
		"another Cluster, local address":        {kubeconfig: kubeconfig(""), mode: "system-store", remote: true, want: foreign.ErrKubeconfigAddress},
		"invalid kubeconfig":                    {kubeconfig: "{", mode: "strict", want: kubeconfigs.ErrKubeconfigMalformed},
		"invalid mode":                          {kubeconfig: kubeconfig(`,"certificate-authority-data":"Y2E="`), mode: "", want: kube.ErrUnknownTLSMode},
		"strict without a CA":                   {kubeconfig: kubeconfig(""), mode: "strict"},
		"insecure-skip-tls-verify":              {kubeconfig: insecure, mode: "system-store", want: kubeconfigs.ErrKubeconfigInsecure},
		"insecure-skip-tls-verify, allowed":     {kubeconfig: insecure, mode: "system-store", allow: true},
		"insecure-skip-tls-verify under strict": {kubeconfig: insecure, mode: "strict", want: kubeconfigs.ErrKubeconfigInsecure},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			foreign := func(local bool) foreign.Options { return foreign.Options{Insecure: test.allow, AnyAddress: local} }
			d, err := remote.Dialer(foreign, nil)(t.Context(), []byte(test.kubeconfig), test.mode, !test.remote)
			if !errors.Is(err, test.want) {
				t.Fatalf("got %v, want %v", err, test.want)
			}
			if err == nil {
				d.Close()
			}
		})
	}
}

// The API server's own address, and networks that the operator lists, are refused to Clusters other than the hub's own.
func TestKubeconfigToTheHubsOwnServices_IsRefused(t *testing.T) {
	settings := config.Config{RefusedKubeconfigCIDRs: []string{"10.97.0.0/16"}}
	variables := env.Controller{ServiceHost: "10.96.0.1"}
	allowed := settings
	allowed.AllowLocalKubeconfigs = true
	tests := map[string]struct {
		host     string
		settings config.Config
		local    bool
		want     error
	}{
		"the API server's own address":        {"10.96.0.1", settings, false, foreign.ErrKubeconfigAddress},
		"the same, for the hub's own Cluster": {"10.96.0.1", settings, true, nil},
		"the same, allowed by the operator":   {"10.96.0.1", allowed, false, nil},
		"a network that is listed":            {"10.97.3.4", settings, false, foreign.ErrKubeconfigAddress},
		"another private address":             {"10.96.0.2", settings, false, nil},
		"outside a cluster: none is refused":  {"10.96.0.9", config.Config{}, false, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			text := kubetest.Kubeconfig("https://10.99.0.3:6443", "https://"+test.host)
			if _, err := foreign.Config(text, remote.ForeignOptions(variables, test.settings, test.local, time.Now())); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}

func TestKinds_AreServedAndHaveTheirOwnBackoff(t *testing.T) {
	mapper := staticMapper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	limiters := rateLimiters()
	for name, k := range kinds() {
		mapping, err := mapper.RESTMapping(k.gvk.GroupKind(), k.gvk.Version)
		if err != nil || mapping.Resource.Resource != k.resource {
			t.Errorf("%s is served as %+v, %v", name, mapping, err)
		}
		if !scheme.Recognizes(k.gvk) {
			t.Errorf("%s has no Go type", name)
		}
		if k.resource != strings.ToLower(name)+"s" {
			t.Errorf("%s is served as %s", name, k.resource)
		}
		limiters[k.gvk].When("ns/name")
		limiters[k.gvk].When("ns/name")
	}
	for name, k := range kinds() {
		want := 4 * retryMin
		if name == "Cluster" {
			want = 4 * clusterRetryMin
		}
		if got := limiters[k.gvk].When("ns/name"); got != want {
			t.Errorf("the third failure of a %s costs %s, want %s: kinds share a backoff", name, got, want)
		}
	}
	if _, err := mapper.RESTMapping(schema.GroupKind{Group: fleet.GroupName, Kind: "GitRepo"}, "v1alpha1"); err == nil {
		t.Error("a kind that is not ours has a mapping")
	}
}

func TestSelectors(t *testing.T) {
	var o metav1.ListOptions
	byLabel(fleet.LabelSetHash, names.SetHash(BootstrapSetID, names.Owner{}))(&o)
	byField("type", "x")(&o)
	want := metav1.ListOptions{LabelSelector: "objectset.rio.cattle.io/hash=67f475f626e5473772f6084a291170a9de5942d1", FieldSelector: "type=x"}
	if diff := cmp.Diff(want, o); diff != "" {
		t.Error(diff)
	}
}

func TestClientFactory_IsAlwaysHealthy(t *testing.T) {
	if !(&clientFactory{}).IsHealthy(t.Context()) {
		t.Error("lasso would sleep")
	}
}

// New objects carry the API server's time: with the clock of a node that is a day ahead they would have expired.
func TestKeepTime_FollowsTheAPIServer(t *testing.T) {
	api := httptest.NewServer(http.NotFoundHandler())
	defer api.Close()
	var log bytes.Buffer
	o := Options{Own: kube.Own{Config: &rest.Config{Host: api.URL}}, Log: slog.New(slog.NewTextHandler(&log, nil))}
	o.keepTime(func() time.Time { return time.Now().Add(25 * time.Hour) })
	if early := time.Until(o.Clock()); early < 24*time.Hour {
		t.Fatalf("without an answer the clock is %v ahead, want that of the process", early)
	}
	client, err := rest.HTTPClientFor(o.Own.Config)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		answer, err := client.Get(api.URL)
		if err != nil {
			t.Fatal(err)
		}
		if err := answer.Body.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if early := time.Until(o.Clock()); early.Abs() > time.Minute {
		t.Errorf("after an answer the clock is %v ahead of the API server's", early)
	}
	if lines := strings.Count(log.String(), "\n"); lines != 1 || !strings.Contains(log.String(), "level=WARN") {
		t.Errorf("logged, want one warning:\n%s", &log)
	}
}
