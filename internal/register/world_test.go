package register

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/fleet-hub/fleet/dev/plane/pki"
	"github.com/fleet-hub/fleet/e2e/framework/golden"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/register/hubclient"
	"github.com/fleet-hub/fleet/internal/rules/registering"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

const (
	hubURL  = "https://hub.example:6443"
	agentNS = "cattle-fleet-system"
)

// world is an agent's surroundings: its own cluster, a hub, people. Time in it is the bubble's, and what
// happens is written down.
type world struct {
	t     *testing.T
	local *fake.Clientset
	ca    []byte
	start time.Time
	skew  time.Duration // of the agent's clock
	logs  bool          // warnings in the agent's log are part of the story

	mu    sync.Mutex
	lines []string // "when what", consecutive equal whats folded

	hubMu     sync.Mutex // The hub:
	down      bool
	outage    error // what a hub that is down answers; nil: it refuses the connection
	busy      bool  // it answers 429 to everything
	untrusted bool
	signer    []byte          // the one CA that has signed the hub's certificate, nil: any
	strangers bool            // at other addresses than hubURL nobody is known
	tokens    map[string]bool // import tokens the hub knows
	accounts  map[string]bool // request tokens that may do an agent's work
	doomed    map[string]bool // request tokens that the hub knows, without rights
	requests  []*fleet.ClusterRegistration
	refuse    error // answer to the next requests
	grant     grantPlan
	hollow    bool         // credentials lack their token
	onWatch   func() error // what comes of a watch, nil: it works
	watched   *watch.FakeWatcher
	appeared  map[string]chan struct{} // closed when the named credential is there

	renewal       renewals // how the hub renews tokens
	recoveryToken string
	document      string                   // the hub document
	anonymous     map[string]string        // by address: what other servers show as the hub document
	sealsFor      string                   // another key than that of the request
	gives         func() map[string][]byte // what an agent needs to return, nil: this hub gives nothing
	givesType     corev1.SecretType        // of Secret fleet-recovery, "": the type that a hub writes
	upToDate      bool                     // Secret fleet-recovery does not exist, because the agent has what it would contain
	reads         int                      // of Secret fleet-recovery
	receipt       func() string            // what the agent reports of what it has

	hub        *rest.Config    // of the session in use
	token      func() string   // of the session in use
	served     chan struct{}   // closed when it is in use
	over       <-chan struct{} // closed when the process ends
	ending     error           // what use returns at once
	mortal     *mortal         // the process, if it is to be killed
	deaf       bool            // use does not hear that it is to end
	endsAtOnce bool            // use returns at once, without an error
}

// renewals is how the hub renews tokens: at most for limit, unless it is zero. If broken, it accepts none of the new
// tokens. serial counts them, and accepted those that it was asked about and accepted.
type renewals struct {
	limit            time.Duration
	broken           bool
	serial, accepted int
}

// grantPlan is how the hub answers requests: the rights to read the credential appear after rights, the
// credential after credential, and its account works after account. Zero credential: never.
type grantPlan struct{ rights, account, credential time.Duration }

// inWorld tells one story and compares it with testdata/<name>.golden.
func inWorld(t *testing.T, name string, story func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		story(t, w)
		golden.Expect(t, name+".golden", strings.Join(w.lines, "\n")+"\n")
	})
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, ca: newCA(t), start: time.Now(),
		tokens: map[string]bool{"import-1": true}, accounts: map[string]bool{}, doomed: map[string]bool{},
		appeared: map[string]chan struct{}{},
		grant:    grantPlan{rights: 150 * time.Millisecond, account: 220 * time.Millisecond, credential: 250 * time.Millisecond},
	}
	w.local = fake.NewClientset(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "system-uid"}},
		recoverySecret("kube-system", protocol.SecretTypeRecovery, encodedKey(t)),
	)
	w.local.PrependReactor("*", "*", w.note)
	return w
}

// say writes a line of the story. Of what is said several times in a row, only the first time is told: how
// often the agent polls depends on when it hears of its own Secrets.
func (w *world) say(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	what := fmt.Sprintf(format, args...)
	if n := len(w.lines); n > 0 {
		if before, _, _ := strings.Cut(w.lines[n-1], " …"); strings.HasSuffix(before, "s  "+what) {
			w.lines[n-1] = before + " …"
			return
		}
	}
	w.lines = append(w.lines, fmt.Sprintf("%8.2fs  %s", time.Since(w.start).Seconds(), what))
}

// note writes down what the agent writes in its own cluster.
func (w *world) note(action clienttesting.Action) (bool, runtime.Object, error) {
	switch action := action.(type) {
	case clienttesting.CreateActionImpl:
		if isRecovery(action.Object) {
			w.say("[agent]  + recovery Secret")
			break
		}
		w.say("[agent]  + %s", keysOf(action.Object))
	case clienttesting.UpdateActionImpl:
		if isRecovery(action.Object) {
			w.say("[agent]  ~ recovery Secret")
			break
		}
		w.say("[agent]  ~ %s", keysOf(action.Object))
	case clienttesting.DeleteActionImpl:
		w.mu.Lock()
		served, over := w.served, w.over
		w.mu.Unlock()
		if served != nil {
			select {
			case <-served: // both begin at the same moment, and the story is told in one order
			case <-over: // the agent was killed before it served
			}
		}
		w.say("[agent]  - %s", action.Name)
	}
	return false, nil, nil
}

func isRecovery(object runtime.Object) bool {
	secret, ok := object.(*corev1.Secret)
	return ok && secret.Type == protocol.SecretTypeRecovery
}

func keysOf(object runtime.Object) string {
	secret, ok := object.(*corev1.Secret)
	if !ok {
		return fmt.Sprintf("%T", object)
	}
	identity, err := protocol.ParseIdentity(secret.Data)
	if err != nil {
		return secret.Name + ": " + err.Error()
	}
	access, err := hubclient.ParseKubeconfig(identity.Kubeconfig)
	if err != nil {
		return secret.Name + ": " + err.Error()
	}
	return fmt.Sprintf("Secret %s: %s/%s as %s in %s", secret.Name, identity.ClusterNamespace, identity.ClusterName, access.Token, access.Namespace)
}

// run runs the agent until the given time has passed or it ends by itself.
func (w *world) run(d time.Duration) {
	ctx, cancel := context.WithTimeout(w.t.Context(), d)
	defer cancel()
	if w.mortal != nil {
		w.mortal.dies = cancel
	}
	w.served, w.over = make(chan struct{}), ctx.Done()
	err := Run(ctx, Options{
		Local: w.local, Namespace: agentNS, Pod: "fleet-agent-pod",
		Clock: func() time.Time { return time.Now().Add(w.skew) }, Random: zeros{},
		Connect: w.connect, FetchDocument: w.fetch, Log: w.log(),
		OnStage: func(stage registering.Stage, reason string) {
			w.say("[agent]  %s", strings.TrimSpace(string(stage)+" "+reason))
		},
	}, w.use)
	if err != nil {
		w.say("[agent]  ends: %v", err)
	} else {
		w.say("[agent]  leaves")
	}
	synctest.Wait()
}

// log tells warnings and what is worse as a part of the story, where that is wanted.
func (w *world) log() *slog.Logger {
	if !w.logs {
		return nil
	}
	return slog.New(slog.NewTextHandler(logLines{w}, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

type logLines struct{ *world }

func (l logLines) Write(p []byte) (int, error) {
	l.say("[log]    %s", strings.TrimSpace(string(p)))
	return len(p), nil
}

// zeros is a source without chance; half of one byte's range is no jitter.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 128
	}
	return len(p), nil
}

func (w *world) use(ctx context.Context, session Session) error {
	w.say("[agent]  serves %s/%s in %s", session.ClusterNamespace, session.ClusterName, session.DeploymentNamespace)
	w.mu.Lock()
	w.hub, w.token, w.receipt = session.Hub, session.Token, func() string { return session.Status().RecoveryTicket }
	close(w.served)
	ending := w.ending
	w.mu.Unlock()
	if ending != nil || w.endsAtOnce {
		return ending
	}
	<-ctx.Done()
	if w.deaf {
		<-w.t.Context().Done()
	}
	w.say("[agent]  no longer serves")
	w.mu.Lock()
	defer w.mu.Unlock()
	w.served = make(chan struct{})
	return ctx.Err()
}

// later does something when the time has come, while the agent runs.
func (w *world) later(d time.Duration, who, what string, do func()) {
	go func() {
		select {
		case <-time.After(d):
			w.hubMu.Lock()
			defer w.hubMu.Unlock()
			w.say("[%s]  %s", who, what)
			do()
		case <-w.t.Context().Done():
		}
	}()
}

// connect is the hub as one identity sees it.
func (w *world) connect(cfg *rest.Config) (hubclient.Hub, error) {
	v := &visitor{world: w, server: cfg.Host, ca: cfg.CAData, token: cfg.BearerToken}
	if w.mortal != nil {
		return w.mortal.hub(v), nil
	}
	return v, nil
}

type visitor struct {
	*world
	server, token string
	ca            []byte
}

// answer is what the hub says to anyone: an error, or nil where the question itself decides.
func (v *visitor) answer(known bool) error {
	switch {
	case v.down && v.server == hubURL && v.outage != nil:
		return v.outage
	case v.down && v.server == hubURL:
		return errors.New("connection refused")
	case v.busy:
		return apierrors.NewTooManyRequests("too many requests", 1)
	case v.untrusted, v.signer != nil && !bytes.Equal(v.signer, v.ca):
		return fmt.Errorf("tls: %w", x509.UnknownAuthorityError{})
	case !known, v.strangers && v.server != hubURL:
		return apierrors.NewUnauthorized("Unauthorized")
	}
	return nil
}

func (v *visitor) Register(_ context.Context, request *fleet.ClusterRegistration) (*fleet.ClusterRegistration, error) {
	v.hubMu.Lock()
	defer v.hubMu.Unlock()
	err := v.answer(v.tokens[v.token])
	if err == nil {
		err = v.refuse
	}
	v.say("[agent]  POST clusterregistration as %s: %s", v.nameOf(v.token), short(err))
	if err != nil {
		return nil, err
	}
	made := request.DeepCopy()
	v.requests = append(v.requests, made)
	n := len(v.requests)
	made.Name = fmt.Sprintf("request-%d", n)
	name := names.CredentialSecret(made.Spec.ClientID, made.Spec.ClientRandom)
	v.appeared[name] = make(chan struct{})
	appeared := v.appeared[name]
	made.CreationTimestamp = metav1.NewTime(time.Now())
	if plan := v.grant; plan.credential > 0 {
		v.later(plan.credential, "hub", "grants "+made.Name, func() { close(appeared) })
		v.later(plan.account, "hub", fmt.Sprintf("lets account-%d work", n), func() { v.accounts[fmt.Sprintf("account-%d", n)] = true })
	}
	return made, nil
}

func (v *visitor) Credential(_ context.Context, namespace, name string) (*corev1.Secret, error) {
	v.hubMu.Lock()
	defer v.hubMu.Unlock()
	if name == names.Recovery {
		return v.given()
	}
	secret, err := v.credential(namespace, name)
	v.say("[agent]  GET credential as %s: %s", v.nameOf(v.token), short(err))
	return secret, err
}

// sealed is the answer to a recovery request.
func (w *world) sealed(request *fleet.ClusterRegistration, data map[string][]byte) map[string][]byte {
	document, err := json.Marshal(data)
	if err != nil {
		w.t.Error(err)
	}
	public := request.Annotations[annotation.AgentKey]
	if w.sealsFor != "" {
		public = w.sealsFor
	}
	sealed, err := identity.Seal(public, document)
	if err != nil {
		w.t.Error(err)
	}
	return map[string][]byte{protocol.EncryptedKey: []byte(sealed)}
}

// nameOf is how a token is called in the story.
func (w *world) nameOf(token string) string {
	if account, err := protocol.ParseAccountToken(token); err == nil && account.AccountUID == "recovery-account" {
		return "fleet-recovery"
	}
	return token
}

// given is Secret fleet-recovery.
func (v *visitor) given() (*corev1.Secret, error) {
	if err := v.answer(v.accounts[v.token]); err != nil {
		return nil, err
	}
	if v.gives == nil {
		return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, names.Recovery, nil)
	}
	if v.reads++; v.upToDate {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, names.Recovery)
	}
	return &corev1.Secret{Type: cmp.Or(v.givesType, protocol.SecretTypeRecovery), Data: v.gives()}, nil
}

func (v *visitor) credential(namespace, name string) (*corev1.Secret, error) {
	if err := v.answer(v.tokens[v.token]); err != nil {
		return nil, err
	}
	n := len(v.requests)
	if n == 0 || namespace != "cattle-fleet-clusters-system" || time.Since(v.requests[n-1].CreationTimestamp.Time) < v.grant.rights {
		return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, name, nil)
	}
	select {
	case <-v.appeared[name]:
		request := v.requests[n-1]
		credential := protocol.Credential{
			Token: fmt.Sprintf("account-%d", n), DeploymentNamespace: "cluster-fleet-default-a-0123456789ab",
			ClusterNamespace: "fleet-default", ClusterName: "a", SystemNamespace: "cattle-fleet-system",
		}
		if v.hollow {
			credential.Token = ""
		}
		data := credential.Encode()
		if v.gives != nil {
			maps.Copy(data, v.gives())
		}
		if request.Annotations[annotation.AgentTicket] != "" {
			data = v.sealed(request, data)
		}
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Type: protocol.SecretTypeCredential, Data: data,
		}, nil
	default:
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
	}
}

func (v *visitor) WatchCredential(ctx context.Context, namespace, name string) (watch.Interface, error) {
	v.hubMu.Lock()
	defer v.hubMu.Unlock()
	var err error
	if v.onWatch != nil {
		err = v.onWatch()
	}
	v.say("[agent]  WATCH credential as %s: %s", v.nameOf(v.token), short(err))
	if err != nil {
		return nil, err
	}
	events := watch.NewFake()
	v.watched = events
	appeared := v.appeared[name]
	go func() {
		select {
		case <-appeared:
			v.hubMu.Lock()
			secret, err := v.credential(namespace, name)
			v.hubMu.Unlock()
			if err == nil {
				events.Add(secret)
			}
		case <-ctx.Done():
		}
	}()
	return events, nil
}

func (v *visitor) Prove(_ context.Context, namespace string) error {
	v.hubMu.Lock()
	defer v.hubMu.Unlock()
	err := v.answer(v.accounts[v.token] || v.doomed[v.token])
	if err == nil && v.doomed[v.token] {
		err = apierrors.NewForbidden(fleet.Resource("bundledeployments"), "", nil)
	}
	v.say("[agent]  LIST bundledeployments in %s as %s at %s: %s", namespace, v.token, v.server, short(err))
	return err
}

func (v *visitor) Document(context.Context) (string, error) {
	v.hubMu.Lock()
	defer v.hubMu.Unlock()
	if err := v.answer(v.accounts[v.token] || v.tokens[v.token]); err != nil {
		return "", err
	}
	if text, found := v.anonymous[v.server]; found {
		return text, nil
	}
	if v.document == "" {
		return "", apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, names.HubDocument)
	}
	return v.document, nil
}

// fetch is the hub document for clients without a credential.
func (w *world) fetch(_ context.Context, server string) (string, error) {
	w.hubMu.Lock()
	defer w.hubMu.Unlock()
	text, found := w.anonymous[server]
	if server == hubURL && !found {
		text = w.document
	}
	w.say("[agent]  GET hub document without a credential at %s", server)
	return text, nil
}

func (v *visitor) Renew(_ context.Context, _, account string, lifetime time.Duration) (string, error) {
	v.hubMu.Lock()
	defer v.hubMu.Unlock()
	err := v.answer(v.accounts[v.token])
	if err == nil && v.renewal.limit > 0 && lifetime > v.renewal.limit {
		err = apierrors.NewForbidden(schema.GroupResource{Resource: "serviceaccounts/token"}, account, nil)
	}
	if err != nil {
		return "", err
	}
	v.renewal.serial++
	token := tokenFor(v.renewal.serial, lifetime)
	if v.accounts[token] = !v.renewal.broken; !v.renewal.broken {
		v.renewal.accepted++
	}
	return token, nil
}

// short is an error in a word.
func short(err error) string {
	switch {
	case err == nil:
		return "ok"
	case apierrors.IsUnauthorized(err):
		return "401"
	case apierrors.IsForbidden(err):
		return "403"
	case apierrors.IsNotFound(err):
		return "404"
	}
	return err.Error()
}

// bootstrapSecret delivers a bootstrap secret with this import token.
func (w *world) bootstrapSecret(token string, change ...func(*corev1.Secret)) {
	w.t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: agentNS, Name: names.AgentBootstrap, UID: types.UID(token), ResourceVersion: token},
		Data: protocol.Bootstrap{
			APIServerURL: hubURL, APIServerCA: w.ca, ClusterNamespace: "fleet-default",
			Token: token, TokenName: "t1", SystemRegistrationNamespace: "cattle-fleet-clusters-system",
		}.Encode(),
	}
	for _, change := range change {
		change(secret)
	}
	w.put(secret)
}

// ofClient makes a bootstrap secret one that the chart renders for a client ID.
func ofClient(id string) func(*corev1.Secret) {
	return func(secret *corev1.Secret) {
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, annotation.BootstrapClientID, id)
	}
}

// expectClientIDs compares the client IDs of the requests that the hub has.
func (w *world) expectClientIDs(want ...string) {
	w.t.Helper()
	var got []string
	for _, request := range w.requests {
		got = append(got, request.Spec.ClientID)
	}
	if !slices.Equal(got, want) {
		w.t.Errorf("client IDs %q, want %q", got, want)
	}
}

// put adds a Secret or replaces the one of its name.
func (w *world) put(secret *corev1.Secret) {
	w.t.Helper()
	resource := corev1.SchemeGroupVersion.WithResource("secrets")
	if _, err := w.local.Tracker().Get(resource, agentNS, secret.Name); err != nil {
		w.add(secret)
	} else if err := w.local.Tracker().Update(resource, secret, agentNS); err != nil {
		w.t.Error(err)
	}
}

// identitySecret is what an earlier registration left.
func (w *world) identitySecret(token string, change ...func(*hubclient.Access)) {
	w.t.Helper()
	access := hubclient.Access{Server: hubURL, CA: w.ca, Token: token, Namespace: "cluster-fleet-default-a-0123456789ab"}
	for _, change := range change {
		change(&access)
	}
	kubeconfig, err := access.Kubeconfig()
	if err != nil {
		w.t.Fatal(err)
	}
	w.put(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: agentNS, Name: names.Agent, ResourceVersion: token + access.Server},
		Data: protocol.Identity{
			Kubeconfig: kubeconfig, DeploymentNamespace: access.Namespace, ClusterNamespace: "fleet-default", ClusterName: "a",
		}.Encode(),
	})
}

// configure writes the agent's ConfigMap, or replaces it.
func (w *world) configure(c config.Agent) {
	w.t.Helper()
	encoded, err := c.Encode()
	if err != nil {
		w.t.Fatal(err)
	}
	w.configureText(encoded)
}

// configureText is configure with any text.
func (w *world) configureText(text string) {
	w.t.Helper()
	configMap := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: agentNS, Name: names.Agent},
		Data:       map[string]string{names.ConfigKey: text},
	}
	resource := corev1.SchemeGroupVersion.WithResource("configmaps")
	if _, err := w.local.Tracker().Get(resource, agentNS, names.Agent); err != nil {
		w.add(configMap)
	} else if err := w.local.Tracker().Update(resource, configMap, agentNS); err != nil {
		w.t.Error(err)
	}
}

// add puts an object into the agent's cluster, past the notes of what the agent writes.
func (w *world) add(object runtime.Object) {
	w.t.Helper()
	if err := w.local.Tracker().Add(object); err != nil {
		w.t.Error(err)
	}
}

func (w *world) remove(name string) {
	w.t.Helper()
	if err := w.local.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("secrets"), agentNS, name); err != nil {
		w.t.Error(err)
	}
}

// expectMissing fails if a Secret is there.
func (w *world) expectMissing(name string) {
	w.t.Helper()
	_, err := w.local.Tracker().Get(corev1.SchemeGroupVersion.WithResource("secrets"), agentNS, name)
	if !apierrors.IsNotFound(err) {
		w.t.Errorf("Secret %s is still there (%v)", name, err)
	}
}

// failFor makes the agent's own cluster fail so many writes of Secrets.
func (w *world) failFor(failures int, verb string) {
	w.local.PrependReactor(verb, "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		failures--
		return failures >= 0, nil, errors.New("etcdserver: request timed out")
	})
}

// turnAway makes the identity in use hear an answer of the hub.
func (w *world) turnAway(status int, err error) {
	w.mu.Lock()
	hub := w.hub
	w.mu.Unlock()
	transport := hub.WrapTransport(answering{status, err})
	request, requestErr := http.NewRequestWithContext(w.t.Context(), http.MethodGet, hubURL, nil)
	if requestErr != nil {
		w.t.Error(requestErr)
		return
	}
	response, gotErr := transport.RoundTrip(request)
	if gotErr == nil {
		gotErr = response.Body.Close()
	}
	if !errors.Is(gotErr, err) {
		w.t.Errorf("the hub's answer was changed to %v", gotErr)
	}
}

type answering struct {
	status int
	err    error
}

func (a answering) RoundTrip(*http.Request) (*http.Response, error) {
	if a.err != nil {
		return nil, a.err
	}
	return &http.Response{StatusCode: a.status, Body: http.NoBody}, nil
}

// newCA returns a certificate that parses. Nothing is signed with it.
func newCA(t *testing.T) []byte {
	t.Helper()
	authority, err := pki.NewAuthority("ca", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return authority.Certificate
}

// quiet swallows what an HTTP server says of handshakes that clients break off.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

// byteReader yields one byte for ever.
type byteReader byte

func (b byteReader) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(b)
	}
	return len(p), nil
}

// credentialName is the contract's name, worked out here once more.
func credentialName(clientID, clientRandom string) string {
	return ("c-" + fmt.Sprintf("%x", sha256.Sum256([]byte(clientID+clientRandom))))[:63]
}
