package join

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"helm.sh/helm/v3/pkg/release"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/agentrelease"
	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/token"
	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// reading tells when it is read, and never ends.
type reading struct{ begun func() }

func (r reading) Read([]byte) (int, error) {
	r.begun()
	select {}
}

func TestInputThatDoesNotEnd_IsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var out, problems bytes.Buffer
	command := New(genericiooptions.IOStreams{In: reading{cancel}, Out: &out, ErrOut: &problems}, time.Now)
	command.SilenceErrors, command.SilenceUsage = true, true
	command.SetArgs([]string{"--kubeconfig", kubeconfigFile(t)})
	err := command.ExecuteContext(ctx)
	if exit.CodeOf(err) != exit.Failed || !strings.Contains(exit.Text(err), "phase 1, read the join text: interrupted") {
		t.Errorf("code %d: %s", exit.CodeOf(err), exit.Text(err))
	}
}

// joined are the objects of an agent that trusts a CA.
func joined(url, ca string) []runtime.Object { return joinedWith("identity", url, ca) }

func joinedWith(token, url, ca string) []runtime.Object {
	kubeconfig := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: c}}],
users: [{name: c, user: {token: %q}}], clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]}`,
		token, url, base64.StdEncoding.EncodeToString([]byte(ca)))
	at := metav1.ObjectMeta{Namespace: names.SystemNamespace, Name: names.Agent}
	return []runtime.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: names.SystemNamespace}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem}},
		&corev1.Secret{ObjectMeta: at, Data: protocol.Identity{
			Kubeconfig: []byte(kubeconfig), DeploymentNamespace: "d", ClusterNamespace: "fleet-default", ClusterName: "west",
		}.Encode()},
	}
}

func TestAgentThatTrustsAnotherCA_GetsThatOfTheText(t *testing.T) {
	own, other := newAuthority(t), newAuthority(t)
	const status = "/apis/fleet.cattle.io/v1alpha1/namespaces/fleet-default/clusters/west/status"
	url, hub := serve(t, own.issue(t, nil), good().with(status, 0, `{}`))
	for name, test := range map[string]struct {
		ca   authority
		want bool
	}{"the CA of the text": {own, false}, "another CA": {other, true}} {
		t.Run(name, func(t *testing.T) {
			server := clitest.Start(t, joined(url, test.ca.pem)...)
			j := joinerOf(t, server)
			j.text = textFor(url, own)
			tokens := seen(hub)
			f, err := j.gather(t.Context())
			if err != nil || f.newCA != test.want || f.rejected {
				t.Errorf("%+v, %v", f, err)
			}
			if sent := seen(hub) > tokens; sent == test.want {
				t.Errorf("the identity was sent: %v", sent)
			}
		})
	}
}

func TestIdentityOfAnotherHub_IsSentOnlyThere(t *testing.T) {
	own := newAuthority(t)
	const status = "/apis/fleet.cattle.io/v1alpha1/namespaces/fleet-default/clusters/west/status"
	for name, test := range map[string]struct {
		code             int
		answer           string
		rejected, silent bool
	}{
		"it knows the agent":          {200, `{}`, false, false},
		"it has deleted the Cluster":  {401, `{"kind":"Status","message":"Unauthorized"}`, true, false},
		"a proxy before it refuses":   {403, `{"message":"Forbidden"}`, false, true},
		"a proxy before it has moved": {404, `not found`, false, true},
		"it does not answer":          {503, `{}`, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			before, former := serve(t, own.issue(t, nil), good().with(status, test.code, test.answer))
			url, hub := serve(t, own.issue(t, nil), good())
			j := joinerOf(t, clitest.Start(t, joined(before, own.pem)...))
			j.text = textFor(url, own)
			f, err := j.gather(t.Context())
			if err != nil || f.rejected != test.rejected || f.silent != test.silent || seen(former) != 1 {
				t.Errorf("asked %d times: %+v, %v", seen(former), f, err)
			}
			if sent := seen(hub); sent > 0 {
				t.Errorf("the hub of the text was sent %d credentials", sent)
			}
		})
	}
}

// releases is a Helm with a release of these values.
type releases struct {
	installing

	status release.Status
	values map[string]any
}

func (r *releases) Status() (release.Status, error) { return r.status, nil }

func (r *releases) Values() (map[string]any, error) { return r.values, nil }

func TestGivenValues_ChangeAnAgentThatHasJoined(t *testing.T) {
	own := newAuthority(t)
	const status = "/apis/fleet.cattle.io/v1alpha1/namespaces/fleet-default/clusters/west/status"
	url, _ := serve(t, own.issue(t, nil), good().with(status, 0, `{}`))
	server := clitest.Start(t, append(joined(url, own.pem), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: names.SystemNamespace, Name: names.Agent}})...)
	for name, test := range map[string]struct {
		status release.Status
		user   map[string]any
		want   step
	}{
		"no values":                    {release.StatusDeployed, map[string]any{}, stepNothing},
		"the values of the release":    {release.StatusDeployed, map[string]any{"proxy": "http://a"}, stepNothing},
		"another value":                {release.StatusDeployed, map[string]any{"proxy": "http://b"}, stepInstall},
		"the last upgrade has failed":  {release.StatusFailed, map[string]any{"proxy": "http://a"}, stepInstall},
		"it has failed, and no values": {release.StatusFailed, map[string]any{}, stepNothing},
	} {
		t.Run(name, func(t *testing.T) {
			j := joinerOf(t, server)
			j.text, j.user, j.helm = textFor(url, own), test.user, &releases{status: test.status, values: map[string]any{"proxy": "http://a", "debug": true}}
			j.text.ClientID = ""
			f, err := j.gather(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got, err := decide(j.text, f); got != test.want || err != nil {
				t.Errorf("step %q: %v", got, err)
			}
		})
	}
}

// Its hub rejects an expired identity also if it still has the Cluster.
func TestExpiredIdentityOfAnotherHub_NeedsConfirmation(t *testing.T) {
	own := newAuthority(t)
	const status = "/apis/fleet.cattle.io/v1alpha1/namespaces/fleet-default/clusters/west/status"
	for name, test := range map[string]struct {
		answer       int
		left         time.Duration // of the identity's lifetime
		unregistered bool
		want         string
	}{
		"rejected while it is valid: moves":    {401, time.Minute, false, ""},
		"expired: refused":                     {401, 0, false, "that hub cannot tell whether it still has the Cluster"},
		"expired and confirmed: moves":         {401, 0, true, ""},
		"accepted although confirmed: refused": {200, time.Minute, true, "this cluster has joined another hub or workspace"},
	} {
		t.Run(name, func(t *testing.T) {
			before, _ := serve(t, own.issue(t, nil), good().with(status, test.answer, `{"kind":"Status"}`))
			url, _ := serve(t, own.issue(t, nil), good())
			now := time.Now()
			claims := fmt.Sprintf(`{"exp":%d,"kubernetes.io":{"serviceaccount":{"uid":"u"}}}`, now.Add(test.left).Unix())
			j := joinerOf(t, clitest.Start(t, joinedWith("e30."+base64.RawURLEncoding.EncodeToString([]byte(claims))+".e30", before, own.pem)...))
			j.text, j.unregistered, j.clock = textFor(url, own), test.unregistered, func() time.Time { return now }
			f, err := j.gather(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			step, err := decide(j.text, f)
			if test.want == "" && (step != stepInstall || err != nil) || test.want != "" && (err == nil || !strings.Contains(exit.Text(err), test.want)) {
				t.Errorf("step %q: %v", step, err)
			}
		})
	}
}

// An agent whose credential was revoked keeps it until its next registration is granted.
func TestRejectedIdentity_WaitsForTheNextRegistration(t *testing.T) {
	own := newAuthority(t)
	const status = "/apis/fleet.cattle.io/v1alpha1/namespaces/fleet-default/clusters/west/status"
	url, _ := serve(t, own.issue(t, nil), good().with(status, 401, `{"message":"Unauthorized"}`))
	at := metav1.ObjectMeta{Namespace: names.SystemNamespace, Name: names.Agent, Labels: map[string]string{"app": names.Agent}}
	running := corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	j := joinerOf(t, clitest.Start(t, append(joined(url, own.pem), &appsv1.Deployment{ObjectMeta: at},
		&corev1.Pod{ObjectMeta: at, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{running}}})...))
	j.text, j.timeout = textFor(url, own), 500*time.Millisecond
	_, err := j.await(t.Context())
	got := exit.Text(err)
	if !strings.Contains(got, "the hub did not grant its registration") || !strings.Contains(got, "fleet confirm-takeover") || strings.Contains(got, "has its credential") {
		t.Error(got)
	}
}

// The earlier pod of an agent with a wrong image runs on and reports.
func TestChangedAgent_WaitsForItsNewPod(t *testing.T) {
	own := newAuthority(t)
	const status = "/apis/fleet.cattle.io/v1alpha1/namespaces/fleet-default/clusters/west/status"
	url, _ := serve(t, own.issue(t, nil), good().with(status, 0, `{"status":{"agent":{"lastSeen":"2026-01-01T00:00:00Z"}}}`))
	at := metav1.ObjectMeta{Namespace: names.SystemNamespace, Name: names.Agent, Labels: map[string]string{"app": names.Agent}}
	waits := corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"}}}
	for name, test := range map[string]struct {
		before  int64
		updated int32
		want    string
	}{
		"the new pod does not run": {1, 0, "no pod of the agent with its present settings was ready within 300ms: the container of pod fleet-agent does not run: ErrImagePull: not found"},
		"it runs":                  {1, 1, ""},
		"its pods are the same":    {2, 0, ""},
		"the agent is new":         {0, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			deployed := appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 1, UpdatedReplicas: test.updated, AvailableReplicas: 1}
			changed := at
			changed.Generation = 2
			j := joinerOf(t, clitest.Start(t, append(joined(url, own.pem), &appsv1.Deployment{ObjectMeta: changed, Status: deployed},
				&corev1.Pod{ObjectMeta: at, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waits}}})...))
			j.text, j.timeout, j.created.before = textFor(url, own), 300*time.Millisecond, test.before
			if test.want != "" {
				j.hubSide = &hubSide{made: token.Made{Cluster: types.NamespacedName{Name: "west"}}}
			}
			_, err := j.await(t.Context())
			if j.hubSide != nil && j.hubSide.made.Cluster.Name != "" {
				t.Error("the Cluster that has joined is deleted")
			}
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(exit.Text(err), test.want)) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestTokenThatIsRevokedMeanwhile_IsTheCause(t *testing.T) {
	own := newAuthority(t)
	url, _ := serve(t, own.issue(t, nil), good().with("/apis/authentication.k8s.io/v1/selfsubjectreviews", 401, ""))
	at := metav1.ObjectMeta{Namespace: names.SystemNamespace, Name: names.Agent, Labels: map[string]string{"app": names.Agent}}
	ended := corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}}
	j := joinerOf(t, clitest.Start(t, &appsv1.Deployment{ObjectMeta: at},
		&corev1.Pod{ObjectMeta: at, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{ended}}}))
	j.text, j.timeout = textFor(url, own), 100*time.Millisecond
	_, err := j.await(t.Context())
	const want = "error: the hub does not accept the token fleet-default/west: it was revoked or has expired, or its workspace was deleted\n" +
		"reason: TokenRejected (docs/conditions.md)\nfix: on the hub: fleet repair moor -n fleet-default\n"
	if got := exit.Text(err); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// The hub of the text has another CA, at the same address.
func TestHubWithAnotherCA_IsProvenByItsDocument(t *testing.T) {
	own, other := newAuthority(t), newAuthority(t)
	hubKey, foreignKey := newKey(t), newKey(t)
	for name, test := range map[string]struct {
		signer identity.Key
		want   step
		code   exit.Code
	}{
		"the agent's hub": {hubKey, stepInstall, exit.Done},
		"another hub":     {foreignKey, "", exit.Refused},
	} {
		t.Run(name, func(t *testing.T) {
			documents := good()
			url, _ := serve(t, own.issue(t, nil), documents)
			document, err := test.signer.SignDocument(identity.Document{URL: url, CA: []byte(own.pem), Serial: 7})
			if err != nil {
				t.Fatal(err)
			}
			documents.with("/api/v1/namespaces/kube-public/configmaps/fleet-hub", 0, `{"data":{"`+names.HubDocumentKey+`":"`+document+`"}}`)
			recovery := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: names.RecoverySecret(names.SystemNamespace)},
				Type:       protocol.SecretTypeRecovery, Data: protocol.RecoveryData{Recovery: protocol.Recovery{HubKey: hubKey.Public()}, Serial: 7}.Encode(),
			}
			j := joinerOf(t, clitest.Start(t, append(joined(url, other.pem), recovery)...))
			j.text = textFor(url, own)
			j.text.ClientID = ""
			f, err := j.gather(t.Context())
			if err != nil || !f.newCA || !f.hubKey {
				t.Fatalf("%+v, %v", f, err)
			}
			if got, err := decide(j.text, f); got != test.want || exit.CodeOf(err) != test.code {
				t.Errorf("%q: %v", got, err)
			}
		})
	}
}

func newKey(t *testing.T) identity.Key {
	t.Helper()
	key, err := identity.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestUndo_KeepsTheRecoveryKeyOfAnEarlierAgent(t *testing.T) {
	key := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: names.RecoverySecret(names.SystemNamespace), UID: "1"}}
	server := clitest.Start(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: names.SystemNamespace}}, key)
	j := joinerOf(t, server)
	var err error
	if j.created.kept, err = j.ownObjects(t.Context()); err != nil || len(j.created.kept) != 1 {
		t.Fatal(j.created.kept, err)
	}
	j.created.release = true
	at := metav1.ObjectMeta{Namespace: names.SystemNamespace, Name: names.Agent, UID: "2"}
	appeared := []runtime.Object{&corev1.Secret{ObjectMeta: at}, &coordinationv1.Lease{ObjectMeta: at}}
	for _, object := range appeared {
		server.Put(object)
	}
	_ = j.undo(t.Context(), nil)
	if server.Get(key) == nil {
		t.Error("the recovery key was deleted")
	}
	for _, object := range appeared {
		if server.Get(object) != nil {
			t.Errorf("%T was not deleted: %v", object, server.Writes())
		}
	}
}

// installing is a Helm that has no release of the agent.
type installing struct{ tookOver, uninstalled bool }

func (*installing) Status() (release.Status, error) { return "", nil }

// Values has none.
func (*installing) Values() (map[string]any, error) { return nil, nil }

func (i *installing) Install(_ context.Context, _ map[string]any, takeOver bool) (bool, error) {
	i.tookOver = takeOver
	return true, nil
}

func (i *installing) Uninstall() error {
	i.uninstalled = true
	return nil
}

func (i *installing) UninstallWithoutHooks() error { return i.Uninstall() }

// The agent of a cluster that moves was installed by its former hub.
func TestUndo_KeepsAnAgentThatWasThere(t *testing.T) {
	for name, before := range map[string]bool{"there was an agent": true, "there was none": false} {
		t.Run(name, func(t *testing.T) {
			j := joinerOf(t, clitest.Start(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: names.SystemNamespace}}))
			helm := &installing{}
			j.helm = helm
			if _, err := j.install(t.Context(), found{exists: true, deployment: before, rejected: true}, stepInstall); err != nil {
				t.Fatal(err)
			}
			_ = j.undo(t.Context(), nil)
			if !helm.tookOver || helm.uninstalled == before {
				t.Errorf("took over: %t, uninstalled: %t", helm.tookOver, helm.uninstalled)
			}
		})
	}
}

// joinerOf returns a joiner whose cluster is a server.
func joinerOf(t *testing.T, server *clitest.Server) *joiner {
	t.Helper()
	command := &options{clock: time.Now, flags: access.NewFlags(), streams: genericiooptions.IOStreams{ErrOut: io.Discard}}
	j := &joiner{options: command, namespace: names.SystemNamespace}
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	command.flags.Bind(set)
	err := set.Parse([]string{"--kubeconfig", server.Kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	if j.cluster, err = command.flags.Open(); err != nil {
		t.Fatal(err)
	}
	if j.helm, err = agentrelease.New(j.cluster.Config, j.namespace); err != nil {
		t.Fatal(err)
	}
	return j
}

// seen returns how many requests had a token.
func seen(r *recorder) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tokens
}
