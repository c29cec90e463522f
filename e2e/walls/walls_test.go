package walls_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/fleet-hub/fleet/dev/plane"
	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/e2e/framework/helm"
	"github.com/fleet-hub/fleet/e2e/framework/replica"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

var (
	sequences = flag.Int("sequences", 100, "how many sequences of hostile requests are sent")
	first     = flag.Int("first", 0, "the number of the first sequence")
	seed      = flag.Int64("seed", 0, "what the sequences are made from; 0 takes another one each time")
)

const (
	mergePatch = types.MergePatchType
	// scanEvery is after how many sequences every identity is asked what it may do in the namespaces of others.
	scanEvery = 50
	// thoroughEvery is after how many sequences it is waited for that all is as it was in the beginning.
	thoroughEvery = 20
)

var control = plane.Share(plane.Options{BeforeControllers: helm.HubCRDs})

func TestMain(m *testing.M) {
	if code, played := replica.Play(); played {
		os.Exit(code)
	}
	os.Exit(control.Main(running{m}))
}

// running ends the controllers before the control plane ends.
type running struct{ tests *testing.M }

// Run is what a TestMain runs.
func (r running) Run() int {
	code := r.tests.Run()
	if controllers != nil {
		controllers.Kill()
	}
	return code
}

// controllers are those of the world that the tests share.
var controllers *replica.Replica

var onceWorld = sync.OnceValues(func() (*world, error) {
	return newWorld(context.Background()) // it lasts longer than the test that makes it
})

func sharedWorld(t *testing.T) *world {
	t.Helper()
	w, err := onceWorld()
	must(t, err)
	return w
}

// quiet lets a plane be asked for outside of a test.
type quiet struct{}

func (quiet) Helper() {}

func (quiet) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// attack is a run of sequences against one world.
type attack struct {
	*world
	observer *observer
	known    dictionary
	hub      dynamic.Interface
	as       map[string]dynamic.Interface
	base     map[schema.GroupVersionResource]map[string]*unstructured.Unstructured

	sent, refused, rebuilt, round int
	settling                      time.Duration
	codes                         map[string]int
	log                           func(format string, args ...any)
}

func TestWalls_AttackerChangesAndReadsNothingOfOthers(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if *seed == 0 {
		*seed = time.Now().UnixNano() % 1_000_000
	}
	t.Logf("seed %d, %d sequences", *seed, *sequences)
	a := newAttack(t, ctx)
	began := time.Now()
	number := *first
	for ; number < *first+*sequences; number++ {
		requests := a.known.sequence(*seed, number)
		a.send(t, ctx, requests)
		sent := time.Now()
		must(t, a.settle(ctx))
		a.settling += time.Since(sent)
		if (number+1)%scanEvery == 0 || number == *first+*sequences-1 {
			a.scan(t, ctx)
		}
		if found := a.observer.found(); len(found) > 0 {
			t.Errorf("seed %d, sequence %d: %d violations\n  %s\nafter the requests\n  %s\n"+
				"run it again with -seed=%d -first=%d -sequences=1",
				*seed, number, len(found), strings.Join(found, "\n  "), text(requests), *seed, number)
			break
		}
		must(t, a.reset(ctx, (number+1)%thoroughEvery == 0))
	}
	t.Logf("seed %d: %d sequences in %s, %s of it settling, %d requests of which %d were refused %v, %d changes seen, "+
		"%d rebuilds of the attacker, %d violations",
		*seed, number-*first, time.Since(began).Round(time.Second), a.settling.Round(time.Second), a.sent, a.refused, a.codes,
		a.observer.events, a.rebuilt, len(a.observer.found()))
}

func text(requests []request) string {
	var lines []string
	for _, r := range requests {
		lines = append(lines, r.String())
	}
	return strings.Join(lines, "\n  ")
}

// newAttack prepares the world and notes what is in it.
func newAttack(t *testing.T, ctx context.Context) *attack {
	t.Helper()
	a := &attack{world: sharedWorld(t), codes: map[string]int{}, log: t.Logf}
	a.observer = newObserver(a.world)
	var err error
	a.hub, err = clientOf(a.site.Config())
	must(t, err)
	must(t, a.identify(ctx))
	must(t, observe(ctx, a.site.Config(), a.observer))
	must(t, a.settle(ctx))
	must(t, a.note(ctx))
	must(t, a.learn(ctx))
	if used := a.observer.used(); used < 2 {
		t.Fatalf("others use %d Contents: want one of the victim, and one of the neutral tenant", used)
	}
	a.observer.arm(true)
	return a
}

// identify makes the clients of the attacker's identities.
func (a *attack) identify(ctx context.Context) error {
	configs, err := a.configs(ctx)
	if err != nil {
		return err
	}
	a.as = map[string]dynamic.Interface{}
	for who, config := range configs {
		if a.as[who], err = clientOf(config); err != nil {
			return err
		}
	}
	return nil
}

// learn is what the attacker finds out about itself and others.
func (a *attack) learn(ctx context.Context) error {
	var requests []fleet.ClusterRegistration
	var accounts []string
	for _, who := range []tenant{a.attacker, a.victim} {
		var list fleet.ClusterRegistrationList
		if err := a.Hub.List(ctx, client.ClusterRegistrations, who.workspace, &list); err != nil {
			return err
		}
		requests = append(requests, list.Items...)
		for _, namespace := range []string{who.workspace, who.namespace} {
			list, err := a.Hub.Kube.CoreV1().ServiceAccounts(namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			for _, account := range list.Items {
				accounts = append(accounts, account.Name)
			}
		}
	}
	kubeconfig, err := a.accountAccess(ctx, a.attacker.workspace, "default")
	if err != nil {
		return err
	}
	a.known = newDictionary(a.world, requests, accounts, string(kubeconfig))
	return nil
}

// send sends requests, whatever the API server thinks of them.
func (a *attack) send(t *testing.T, ctx context.Context, requests []request) {
	t.Helper()
	for _, r := range requests {
		a.expect(r)
		err := a.do(ctx, r)
		a.sent++
		var status apierrors.APIStatus
		switch {
		case err == nil:
		case errors.As(err, &status):
			a.refused++
			a.codes[string(apierrors.ReasonForError(err))]++
		default:
			t.Fatalf("sending %s: %v", r, err)
		}
	}
}

// expect notes the namespaces that a request may lead to, all of them the attacker's own.
func (a *attack) expect(r request) {
	if r.resource.Resource == client.Clusters {
		a.observer.owns(r.namespace, r.name)
	}
	if id, _, _ := unstructured.NestedString(r.body, "spec", "clientID"); id != "" {
		a.observer.owns(r.namespace, names.Cluster(id))
	}
}

func (a *attack) do(ctx context.Context, r request) error {
	objects := a.as[r.as].Resource(r.resource).Namespace(r.namespace)
	if r.verb == remove {
		return objects.Delete(ctx, r.name, metav1.DeleteOptions{})
	}
	body, err := json.Marshal(r.body)
	if err != nil {
		return err
	}
	if r.verb == putStatus {
		_, err := objects.Patch(ctx, r.name, mergePatch, body, metav1.PatchOptions{}, "status")
		return err
	}
	var made unstructured.Unstructured
	if err := json.Unmarshal(body, &made.Object); err != nil {
		return err
	}
	made.SetName(r.name)
	_, err = objects.Create(ctx, &made, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	_, err = objects.Patch(ctx, r.name, mergePatch, body, metav1.PatchOptions{})
	return err
}

// scan asks for the rights that the attacker's identities have with others, those of all agents included whose
// credentials are handed out right now, and looks with them for what they should not see.
func (a *attack) scan(t *testing.T, ctx context.Context) {
	t.Helper()
	configs, err := a.configs(ctx)
	must(t, err)
	handedOut, err := a.Hub.Kube.CoreV1().Secrets(registrationNamespace).List(ctx, metav1.ListOptions{})
	must(t, err)
	for i := range handedOut.Items {
		secret := &handedOut.Items[i]
		own := secret.Annotations[fleet.AnnotationClusterRegistrationNamespace] == attacker
		if own && secret.Type == protocol.SecretTypeCredential {
			configs[asAgent+" of "+string(secret.Data["clusterName"])] = a.bearing(string(secret.Data["token"]))
		}
	}
	for who, config := range configs {
		for _, namespace := range a.others() {
			rules, err := reach(ctx, config, namespace)
			if apierrors.IsUnauthorized(err) {
				break // its account has ended
			}
			must(t, err)
			for _, rule := range rules {
				if !isEverywhere(who, namespace, rule) {
					a.observer.violate("%s may do more in %s: %s", who, namespace, rule)
				}
			}
		}
	}
	a.look(t, ctx)
}

// isEverywhere says whether a right is one of those that reach beyond the own namespaces: agents read Contents, of any
// tenant, by a name that is the hash of what they hold, and tokens the answers to their own requests (see mayAnswer).
func isEverywhere(who, namespace, rule string) bool {
	if strings.HasPrefix(who, asAgent) {
		return strings.Contains(rule, `"contents"`) && strings.Contains(rule, `"verbs":["get"]`)
	}
	return who == asToken && namespace == registrationNamespace && strings.Contains(rule, `"resourceNames"`)
}

// look lists, as each identity, what it can list anywhere, and looks for the secrets of others.
func (a *attack) look(t *testing.T, ctx context.Context) {
	t.Helper()
	for who, c := range a.as {
		for _, kind := range resettable() {
			for _, namespace := range append(a.others(), "", a.attacker.workspace, a.attacker.namespace) {
				list, err := c.Resource(kind).Namespace(namespace).List(ctx, metav1.ListOptions{})
				if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
					continue
				}
				must(t, err)
				for i := range list.Items {
					if found := a.observer.readable(&list.Items[i]); found != "" || !a.observer.isOwn(list.Items[i].GetNamespace()) {
						a.observer.violate("%s reads %s %s, which shows %q", who, kind.Resource, keyOf(&list.Items[i]), found)
					}
				}
			}
		}
	}
}

// others are the namespaces in which the attacker has nothing to do.
func (w *world) others() []string {
	return []string{
		w.victim.workspace, w.victim.namespace, framework.LocalWorkspace, framework.Workspace, names.SystemNamespace,
		registrationNamespace, metav1.NamespaceSystem, metav1.NamespaceDefault,
	}
}

// settle returns when everything that the attacker has written has passed the controllers: a change of the neutral
// tenant's Secret and Cluster that is made now has become a copy and a deployment, and they are quiet.
func (a *attack) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	a.round++
	marker := fmt.Sprintf("round-%d-", a.round)
	secret := []byte(fmt.Sprintf(`{"stringData":{"round":%q}}`, marker))
	if _, err := a.Hub.Kube.CoreV1().Secrets(neutral).Patch(ctx, "db", mergePatch, secret, metav1.PatchOptions{}); err != nil {
		return err
	}
	label := []byte(fmt.Sprintf(`{"metadata":{"labels":{"round":"%sx"}}}`, marker))
	if err := a.Hub.Patch(ctx, client.Clusters, neutral, a.neutral.cluster, label); err != nil {
		return err
	}
	if err := a.observer.await(ctx, marker); err != nil {
		return err
	}
	return a.quiet(ctx)
}

// reset makes the attacker's namespaces what they were. That all has gone is only waited for after some sequences. Where
// it does not succeed, the attacker gets another cluster.
func (a *attack) reset(ctx context.Context, thoroughly bool) error {
	for try := 0; ; try++ {
		left, lost, err := a.restore(ctx, try)
		switch {
		case err != nil:
			return err
		case lost != "" || try == 8:
			a.log("rebuilding the attacker: lost %q, left %q", lost, left)
			return a.rebuild(ctx)
		case len(left) == 0 || !thoroughly:
			return nil
		}
		if err := a.settle(ctx); err != nil {
			return err
		}
	}
}

func resettable() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		fleetResource(client.BundleDeployments), fleetResource(client.Bundles), fleetResource(client.ClusterRegistrations),
		fleetResource(client.Tokens), fleetResource(client.ClusterGroups), fleetResource(client.Mappings),
		fleetResource(client.Clusters), coreResource("secrets"), coreResource("configmaps"), coreResource("serviceaccounts"),
	}
}

// lists are all objects of the kinds that are reset.
func (a *attack) lists(ctx context.Context) ([]*unstructured.UnstructuredList, error) {
	lists := make([]*unstructured.UnstructuredList, len(resettable()))
	group, ctx := errgroup.WithContext(ctx)
	for i, kind := range resettable() {
		group.Go(func() (err error) {
			lists[i], err = a.hub.Resource(kind).List(ctx, metav1.ListOptions{})
			return err
		})
	}
	return lists, group.Wait()
}

// note takes what is in the attacker's workspace and in the namespace of its cluster for what belongs there.
func (a *attack) note(ctx context.Context) error {
	a.base = map[schema.GroupVersionResource]map[string]*unstructured.Unstructured{}
	lists, err := a.lists(ctx)
	if err != nil {
		return err
	}
	for n, kind := range resettable() {
		list := lists[n]
		a.base[kind] = map[string]*unstructured.Unstructured{}
		for i := range list.Items {
			if namespace := list.Items[i].GetNamespace(); namespace == a.attacker.workspace || namespace == a.attacker.namespace {
				a.base[kind][keyOf(&list.Items[i])] = &list.Items[i]
			}
		}
	}
	return nil
}

func keyOf(u *unstructured.Unstructured) string { return u.GetNamespace() + "/" + u.GetName() }

// restore deletes what the attacker has made and puts back what it has changed. It says which objects are left, and what
// the attacker's agent has lost without which it has no identity.
func (a *attack) restore(ctx context.Context, try int) (left []string, lost string, err error) {
	lists, err := a.lists(ctx)
	if err != nil {
		return nil, "", err
	}
	for n, kind := range resettable() {
		list := lists[n]
		missing := map[string]bool{}
		for key := range a.base[kind] {
			missing[key] = true
		}
		for i := range list.Items {
			now := &list.Items[i]
			if !a.observer.isOwn(now.GetNamespace()) {
				continue
			}
			delete(missing, keyOf(now))
			done, err := a.restoreOne(ctx, kind, now, a.base[kind][keyOf(now)], try)
			if ignorable(err) != nil {
				return nil, "", err
			}
			if !done {
				left = append(left, kind.Resource+" "+keyOf(now))
			}
		}
		for key := range missing {
			gone := a.base[kind][key]
			if kind.Resource == client.Clusters || kind.Resource == client.ClusterRegistrations || a.isAgents(kind, gone) {
				return nil, kind.Resource + " " + key, nil
			}
			if isControllers(kind, gone) {
				continue
			}
			left = append(left, "missing "+kind.Resource+" "+key)
			made := gone.DeepCopy()
			made.SetResourceVersion("")
			made.SetUID("")
			_, err := a.hub.Resource(kind).Namespace(made.GetNamespace()).Create(ctx, made, metav1.CreateOptions{})
			if ignorable(err) != nil {
				return nil, "", err
			}
		}
	}
	return left, "", nil
}

// isAgents says whether an object is the account of the attacker's agent.
func (a *attack) isAgents(kind schema.GroupVersionResource, u *unstructured.Unstructured) bool {
	return kind.Resource == "serviceaccounts" && u.GetNamespace() == a.attacker.namespace && u.GetName() != "default"
}

// isControllers says whether an object is one that the controllers have made and would make again.
func isControllers(kind schema.GroupVersionResource, u *unstructured.Unstructured) bool {
	switch kind.Resource {
	case client.BundleDeployments, "serviceaccounts":
		return true
	case "secrets", "configmaps":
		return u.GetName() == token || len(u.GetOwnerReferences()) > 0 || u.GetName() == "kube-root-ca.crt"
	}
	return false
}

// ignorable is nil for errors that another try heals.
func ignorable(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

func (a *attack) restoreOne(
	ctx context.Context, kind schema.GroupVersionResource, now, base *unstructured.Unstructured, try int,
) (done bool, err error) {
	objects := a.hub.Resource(kind).Namespace(now.GetNamespace())
	if base == nil && isAutomatic(kind, now) {
		return true, nil
	}
	if base == nil || now.GetDeletionTimestamp() != nil || a.isAgents(kind, now) && now.GetUID() != base.GetUID() {
		return false, a.discard(ctx, kind, now, try)
	}
	wanted := restored(kind, now, base)
	said := func(u *unstructured.Unstructured) []any {
		namespace, _, _ := unstructured.NestedFieldNoCopy(u.Object, "status", "namespace")
		agent, _, _ := unstructured.NestedFieldNoCopy(u.Object, "status", "agent")
		return []any{namespace, agent}
	}
	if equality.Semantic.DeepEqual(now.Object, wanted.Object) && equality.Semantic.DeepEqual(said(now), said(base)) {
		return true, nil
	}
	if _, err := objects.Update(ctx, wanted, metav1.UpdateOptions{}); err != nil || kind.Resource != client.Clusters {
		return false, err
	}
	wanted, err = objects.Get(ctx, now.GetName(), metav1.GetOptions{})
	if err != nil {
		return false, err
	}
	wanted.Object["status"] = base.Object["status"]
	_, err = objects.UpdateStatus(ctx, wanted, metav1.UpdateOptions{})
	return false, err
}

// discard deletes an object at once; of Clusters the controllers' finalizer is honoured.
func (a *attack) discard(
	ctx context.Context, kind schema.GroupVersionResource, u *unstructured.Unstructured, try int,
) error {
	objects := a.hub.Resource(kind).Namespace(u.GetNamespace())
	finalizers := u.GetFinalizers()
	honoured := kind.Resource == client.Clusters && slices.Equal(finalizers, []string{fleet.FinalizerCluster}) && try <= 3
	if len(finalizers) > 0 && !honoured {
		_, err := objects.Patch(ctx, u.GetName(), mergePatch, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if ignorable(err) != nil {
			return err
		}
	}
	return objects.Delete(ctx, u.GetName(), metav1.DeleteOptions{})
}

// isAutomatic says whether an object comes with each namespace.
func isAutomatic(kind schema.GroupVersionResource, u *unstructured.Unstructured) bool {
	switch kind.Resource {
	case "serviceaccounts":
		return u.GetName() == "default"
	case "configmaps":
		return u.GetName() == "kube-root-ca.crt"
	}
	return false
}

// restored is an object with the metadata and the content of another one.
func restored(kind schema.GroupVersionResource, now, base *unstructured.Unstructured) *unstructured.Unstructured {
	wanted := now.DeepCopy()
	wanted.SetLabels(base.GetLabels())
	wanted.SetFinalizers(base.GetFinalizers())
	if isControllers(kind, base) {
		return wanted // what is in it is the controllers' business
	}
	wanted.SetOwnerReferences(base.GetOwnerReferences())
	wanted.SetAnnotations(base.GetAnnotations())
	for _, field := range []string{"spec", "data", "bundleSelector", "namespaceSelector"} {
		if value, has := base.Object[field]; has && (kind.Resource != "secrets" || now.GetName() != "db") {
			wanted.Object[field] = value
		}
	}
	return wanted
}

// rebuild gives the attacker another cluster, of another name, since its agent has lost its identity.
func (a *attack) rebuild(ctx context.Context) error {
	a.rebuilt++
	a.base = nil
	for try := 0; ; try++ {
		left, _, err := a.restore(ctx, try)
		switch {
		case err != nil:
			return err
		case try == 100:
			return fmt.Errorf("objects of the attacker do not go: %q", left)
		}
		if len(left) == 0 {
			break
		}
		if err := a.settle(ctx); err != nil {
			return err
		}
	}
	a.attacker = tenantOf(attacker, fmt.Sprintf("a%d", a.rebuilt+1))
	a.observer.owns(attacker, a.attacker.cluster)
	for _, step := range []func(context.Context) error{
		func(ctx context.Context) error { return a.addTenant(ctx, a.attacker) }, a.addAdmin, a.identify, a.settle, a.note, a.learn,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}
