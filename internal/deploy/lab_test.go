package deploy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/dev/plane"
	"github.com/fleet-hub/fleet/e2e/framework/helm"
	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/hub"
	"github.com/fleet-hub/fleet/internal/rules/content"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

const east = "east"

// shortInterval is the garbage collection interval of tests with several rounds.
const shortInterval = 100 * time.Millisecond

// pollEvery is the interval in which a test looks for a state. Most of these looks are requests to an API server.
const pollEvery = 50 * time.Millisecond

// control is a hub with one downstream cluster, shared by the tests of this package that need API servers.
var control = plane.Share(plane.Options{Downstreams: []string{east}, BeforeControllers: helm.HubCRDs, Audit: true})

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "4"); err != nil { // the tests wait, mostly
		panic(err)
	}
	os.Exit(control.Main(m))
}

// lab is one cluster's namespace on the hub, with a running deployer. Tests share only the API servers: all names
// are unique to the test.
type lab struct {
	t *testing.T
	// Name is unique to the test. It names the cluster's and the agent's namespace, and is the prefix of other names.
	Name     string
	Hub      *hub.Hub             // admin
	HubCore  kubernetes.Interface // admin
	East     kubernetes.Interface // admin
	identity *rest.Config         // of the agent on the hub
	local    *rest.Config
	options  func(*Options)
	// interval is the garbage collection interval; zero means the default.
	interval time.Duration

	mu   sync.Mutex
	logs bytes.Buffer
	stop func()
}

// labs are the names of the labs of this run: their agents would deploy each other's bundles.
var labs sync.Map

// newLab creates the namespaces and the agent's identity. start runs the deployer.
func newLab(t *testing.T, name string) *lab {
	t.Helper()
	if other, taken := labs.LoadOrStore(name, t.Name()); taken {
		t.Fatalf("%s has this lab, too", other)
	}
	p := control.Plane(t)
	l := &lab{t: t, Name: "lab-" + name, local: p.Cluster(east).Config(), options: func(*Options) {}}
	admin := p.Hub.Config()
	var err error
	if l.Hub, err = hub.New(admin, l.Name); err != nil {
		t.Fatal(err)
	}
	l.HubCore, l.East = kubernetes.NewForConfigOrDie(admin), kubernetes.NewForConfigOrDie(l.local)
	for _, core := range []kubernetes.Interface{l.HubCore, l.East} {
		l.create(func(ctx context.Context) error {
			_, err := core.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: l.Name}}, metav1.CreateOptions{})
			return err
		})
	}
	l.identity = l.newIdentity(admin)
	t.Cleanup(func() {
		l.halt()
		l.forget()
		if t.Failed() {
			t.Log(l.log())
		}
	})
	return l
}

// forget deletes the records of the test's releases, because each deployer of a later test would read all of them.
func (l *lab) forget() {
	l.t.Helper()
	err := l.East.CoreV1().Secrets(l.Name).DeleteCollection(context.Background(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "owner=helm"})
	if err != nil {
		l.t.Error(err)
	}
}

func (l *lab) create(do func(context.Context) error) {
	l.t.Helper()
	if err := do(l.t.Context()); err != nil && !apierrors.IsAlreadyExists(err) {
		l.t.Fatal(err)
	}
}

// newIdentity creates an account with exactly the rights of an agent on the hub.
func (l *lab) newIdentity(admin *rest.Config) *rest.Config {
	l.t.Helper()
	meta := metav1.ObjectMeta{Name: "request", Namespace: l.Name}
	ref := func(kind string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: map[string]string{"Role": "request", "ClusterRole": "lab-content"}[kind]}
	}
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Name: "request", Namespace: l.Name}}
	l.create(func(ctx context.Context) error {
		_, err := l.HubCore.CoreV1().ServiceAccounts(l.Name).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
		return err
	})
	l.create(func(ctx context.Context) error {
		_, err := l.HubCore.RbacV1().Roles(l.Name).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{fleet.GroupName}, Resources: []string{"bundledeployments"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{fleet.GroupName}, Resources: []string{"bundledeployments/status"}, Verbs: []string{"update", "patch"}},
			{APIGroups: []string{""}, Resources: []string{"secrets", "configmaps"}, Verbs: []string{"get"}},
		}}, metav1.CreateOptions{})
		return err
	})
	l.create(func(ctx context.Context) error {
		_, err := l.HubCore.RbacV1().RoleBindings(l.Name).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: ref("Role")}, metav1.CreateOptions{})
		return err
	})
	l.create(func(ctx context.Context) error {
		_, err := l.HubCore.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "lab-content"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{fleet.GroupName}, Resources: []string{"contents"}, Verbs: []string{"get"}},
		}}, metav1.CreateOptions{})
		return err
	})
	l.create(func(ctx context.Context) error {
		_, err := l.HubCore.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: l.Name}, Subjects: subjects, RoleRef: ref("ClusterRole")}, metav1.CreateOptions{})
		return err
	})
	token, err := l.HubCore.CoreV1().ServiceAccounts(l.Name).CreateToken(l.t.Context(), "request", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(admin)
	config.BearerToken = token.Status.Token
	return config
}

// fakeTime returns a function that lets time pass for the deployer, but not for its timers.
func (l *lab) fakeTime() (pass func(time.Duration)) {
	var passed atomic.Int64
	l.options = func(o *Options) {
		o.Clock = func() time.Time { return time.Now().Add(time.Duration(passed.Load())) }
	}
	return func(more time.Duration) { passed.Add(int64(more)) }
}

// start runs the deployer until halt or the end of the test. It returns when the cache has synced.
func (l *lab) start() {
	l.t.Helper()
	watching, done := l.run()
	select {
	case <-watching:
	case <-done:
		l.t.Fatal("the deployer ended")
	case <-l.t.Context().Done():
	}
}

// run runs the deployer until halt or the end of the test. The channels report the sync and the end.
func (l *lab) run() (watching, ended <-chan struct{}) {
	l.t.Helper()
	ctx, cancel := context.WithCancel(context.Background()) // it ends after the test's own context
	begun, done := make(chan struct{}), make(chan struct{})
	options := l.agentOptions()
	options.OnWatching = func(func() []*fleet.BundleDeployment) { close(begun) }
	l.options(&options)
	var err error
	go func() { err = Run(ctx, options); close(done) }()
	l.stop = sync.OnceFunc(func() {
		cancel()
		<-done
		if err != nil {
			l.t.Errorf("the deployer ended with %v", err)
		}
	})
	return begun, done
}

func (l *lab) agentOptions() Options {
	return Options{
		Hub: l.identity, Namespace: l.Name, Local: l.local, AgentNamespace: l.Name, OwnBundle: "fleet-agent-east", GarbageCollectionInterval: l.interval,
		Log: slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
}

// byHand returns a deployer that knows the BundleDeployments and its releases, and does nothing until the test
// calls it.
func (l *lab) byHand() *deployer {
	l.t.Helper()
	options := l.agentOptions()
	l.options(&options)
	options, err := options.complete()
	if err != nil {
		l.t.Fatal(err)
	}
	d, err := newDeployer(options)
	if err != nil {
		l.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(l.t.Context())
	var group sync.WaitGroup
	group.Go(func() { d.hub.Informer.RunWithContext(ctx) })
	l.t.Cleanup(func() {
		cancel()
		d.queue.ShutDown()
		d.watches.Stop()
		d.copier.Stop()
		d.wakeups.Stop()
		close(d.stopped)
		group.Wait()
	})
	if !cache.WaitForCacheSync(ctx.Done(), d.hub.Informer.HasSynced) {
		l.t.Fatal("the BundleDeployments are not known")
	}
	d.rememberAll()
	if err := d.sweep(ctx); err != nil {
		l.t.Fatal(err)
	}
	return d
}

// halt stops the deployer, if it runs.
func (l *lab) halt() {
	if l.stop != nil {
		l.stop()
	}
}

// Write receives the deployer's log.
func (l *lab) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.logs.Write(line)
}

func (l *lab) log() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.logs.String()
}

// bundle describes a BundleDeployment.
type bundle struct {
	Name    string
	Files   map[string]string
	Options fleet.BundleDeploymentOptions
	Change  func(*fleet.BundleDeployment)
}

// apply creates or updates a BundleDeployment like the controller.
func (l *lab) apply(b bundle) *fleet.BundleDeployment {
	l.t.Helper()
	manifest := deploytest.ManifestOf(b.Files)
	l.create(func(ctx context.Context) error {
		return l.Hub.Fleet.Post().Resource(hub.Contents).Body(content.Object(manifest)).Do(ctx).Error()
	})
	options, err := json.Marshal(b.Options)
	if err != nil {
		l.t.Fatal(err)
	}
	id := fmt.Sprintf("%s:%x", manifest.ID(), sha256.Sum256(options))
	wanted := &fleet.BundleDeployment{
		ObjectMeta: metav1.ObjectMeta{Name: b.Name, Namespace: l.Name, Labels: map[string]string{
			fleet.LabelBundleName: b.Name, fleet.LabelBundleNamespace: "fleet-default",
		}},
		Spec: fleet.BundleDeploymentSpec{
			DeploymentID: id, StagedDeploymentID: id, Options: b.Options, StagedOptions: b.Options,
			CorrectDrift: b.Options.CorrectDrift,
		},
	}
	if b.Change != nil {
		b.Change(wanted)
	}
	var made fleet.BundleDeployment
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error { // the agent reports at the same time
		request := l.Hub.Fleet.Post()
		if current := l.get(b.Name); current != nil {
			wanted.ResourceVersion = current.ResourceVersion
			request = l.Hub.Fleet.Put().Name(b.Name)
		}
		return request.Namespace(l.Name).Resource(hub.BundleDeployments).Body(wanted).Do(l.t.Context()).Into(&made)
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return &made
}

// get reads a BundleDeployment, nil if it does not exist.
func (l *lab) get(name string) *fleet.BundleDeployment {
	l.t.Helper()
	var found fleet.BundleDeployment
	err := l.Hub.Fleet.Get().Namespace(l.Name).Resource(hub.BundleDeployments).Name(name).Do(l.t.Context()).Into(&found)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		l.t.Fatal(err)
	}
	return &found
}

func (l *lab) delete(name string) {
	l.t.Helper()
	if err := l.Hub.Fleet.Delete().Namespace(l.Name).Resource(hub.BundleDeployments).Name(name).Do(l.t.Context()).Error(); err != nil {
		l.t.Fatal(err)
	}
}

// eventually fails the test unless check returns "" within patience. The text says what is missing.
func (l *lab) eventually(check func() string) {
	l.t.Helper()
	var missing string
	err := wait.PollUntilContextTimeout(l.t.Context(), pollEvery, deploytest.Patience, true, func(context.Context) (bool, error) {
		missing = check()
		return missing == "", nil
	})
	if err != nil {
		l.t.Fatalf("still: %s", missing)
	}
}

// expectStatus waits until the status of a BundleDeployment is as expected.
func (l *lab) expectStatus(name string, wanted func(*fleet.BundleDeployment) string) *fleet.BundleDeployment {
	l.t.Helper()
	var bd *fleet.BundleDeployment
	l.eventually(func() string {
		if bd = l.get(name); bd == nil {
			return name + " is not there"
		}
		if missing := wanted(bd); missing != "" {
			status, _ := yaml.Marshal(bd.Status)
			return missing + "; the status is\n" + string(status)
		}
		return ""
	})
	return bd
}

// ready expects a deployed and ready BundleDeployment.
func ready(bd *fleet.BundleDeployment) string {
	switch {
	case bd.Status.AppliedDeploymentID != bd.Spec.DeploymentID:
		return "not applied"
	case !bd.Status.Ready || !bd.Status.NonModified:
		return "not ready"
	}
	return conditionsAre(bd, "Installed=True Deployed=True Ready=True Monitored=True")
}

// conditionsAre compares all conditions as "Type=Status", in any order.
func conditionsAre(bd *fleet.BundleDeployment, want string) string {
	for _, pair := range strings.Fields(want) {
		kind, status, _ := strings.Cut(pair, "=")
		found := conditions.Get(bd.Status.Conditions, kind)
		if found == nil || string(found.Status) != status {
			return "condition " + kind + " is not " + status
		}
	}
	return ""
}

// says expects a condition to be False with a message.
func says(kind, text string) func(*fleet.BundleDeployment) string {
	return func(bd *fleet.BundleDeployment) string {
		found := conditions.Get(bd.Status.Conditions, kind)
		if found == nil || found.Status != corev1.ConditionFalse || !strings.Contains(found.Message, text) {
			return fmt.Sprintf("condition %s does not say %q", kind, text)
		}
		return ""
	}
}
