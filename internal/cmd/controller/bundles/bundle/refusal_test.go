package bundle

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/rules/content"
	"github.com/fleet-hub/fleet/internal/rules/selection"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

var deployments = schema.GroupResource{Group: "fleet.cattle.io", Resource: "bundledeployments"}

// Answers of an API server, and errors without an answer.
var (
	errQuota   = apierrors.NewForbidden(deployments, "web", errors.New("exceeded quota"))
	errDenied  = apierrors.NewBadRequest(`admission webhook "policy.example.com" denied the request: not here`)
	errWebhook = apierrors.NewInternalError(errors.New(`failed calling webhook "policy.example.com"`))
	errFaster  = apierrors.NewConflict(deployments, "web", errors.New("it was changed"))
	errDown    = &url.Error{Op: "Post", URL: "https://hub", Err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}}
)

func newOnes(numbers ...int) (requests []string) {
	for _, number := range numbers {
		requests = append(requests, createOf(number))
	}
	return requests
}

func upTo(count int) (numbers []int) {
	for number := range count {
		numbers = append(numbers, number)
	}
	return numbers
}

func mostNew(count int) func(*fleet.Bundle) { return strategy(fleet.RolloutStrategy{MaxNew: &count}) }

// withoutRoom gives the first clusters values that no Secret holds.
func withoutRoom(clusters int) func(*fleet.Bundle) {
	return func(b *fleet.Bundle) {
		text := fmt.Sprintf(`${ if lt .ClusterName %q }${ repeat 600000 "x" }${ end }`, nameOf(clusters))
		b.Spec.Helm = &fleet.HelmOptions{Values: &fleet.GenericMap{Data: map[string]any{"text": text}}}
	}
}

func TestRefusingCluster_DoesNotBlockOthers(t *testing.T) {
	tests := map[string]struct {
		clusters int
		bundle   *fleet.Bundle
		fail     error
		of       []int
		// created is how many others exist after one pass, tried how many requests there were for that.
		created, tried int
		told           string
		errs           int
	}{
		"two clusters always refuse": {
			clusters: 300, bundle: bundle(everywhere), fail: errQuota, of: []int{3, 120},
			created: 298, tried: 300, told: "write error: " + errQuota.Error(), errs: 2,
		},
		"more than maxNew refuse, among them the first": {
			clusters: 130, bundle: bundle(everywhere), fail: errDenied, of: upTo(60),
			created: 70, tried: 130, told: "write error: " + errDenied.Error(), errs: 60,
		},
		"all clusters refuse": {
			clusters: 120, bundle: bundle(everywhere), fail: errQuota, of: upTo(120),
			created: 0, tried: 120, told: "write error: " + errQuota.Error(), errs: 120,
		},
		"a webhook fails for one cluster: it counts as in doubt": {
			clusters: 120, bundle: bundle(everywhere), fail: errWebhook, of: []int{3},
			created: 119, tried: 120, told: "write error: " + errWebhook.Error(), errs: 1,
		},
		"created already, cache is behind": {
			clusters: 9, bundle: bundle(everywhere, mostNew(2)), fail: apierrors.NewAlreadyExists(deployments, "web"), of: []int{0},
			created: 8, tried: 9, errs: 1,
		},
		"a webhook that fails for all ends the pass after one round": {
			clusters: 120, bundle: bundle(everywhere), fail: errWebhook, of: upTo(120),
			created: 0, tried: 50, told: "write error: " + errWebhook.Error(), errs: 50,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDelivery(t, test.bundle, test.clusters)
			d.fail(test.fail, newOnes(test.of...)...)
			err := d.pass(t.Context())
			all, times := d.writes("create BundleDeployment")
			if len(all) != test.tried || len(times) != test.tried {
				t.Errorf("%d requests for %d clusters, want one for each of %d", len(all), len(times), test.tried)
			}
			if got := len(d.all(t)); got != test.created {
				t.Errorf("%d BundleDeployments, want %d", got, test.created)
			}
			if got := lines(err); got != test.errs {
				t.Errorf("%d errors, want %d:\n%v", got, test.errs, err)
			}
			want := map[string]string{}
			for _, number := range test.of {
				if test.told != "" && number < test.tried {
					want[nameOf(number)] = test.told
				}
			}
			if diff := cmp.Diff(want, d.failures()); diff != "" {
				t.Errorf("what is told of clusters (-want +got):\n%s", diff)
			}
		})
	}
}

// Clusters with a foreign BundleDeployment of that name are not retried, however many they are.
func TestForeignObject_DoesNotBlockOthers(t *testing.T) {
	d := newDelivery(t, bundle(everywhere, mostNew(2)), 9)
	for number := range 4 {
		d.hub.Put(&fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{
			Namespace: placeOf(nameOf(number)), Name: "web", Labels: map[string]string{fleet.LabelBundleName: "web", fleet.LabelBundleNamespace: "elsewhere"},
		}})
	}
	if err := d.pass(t.Context()); err != nil {
		t.Errorf("error = %v, though the other one's end wakes us", err)
	}
	if all, _ := d.writes("create BundleDeployment"); len(all) != 5 {
		t.Errorf("%d requests, want those that nobody is in the way of: %v", len(all), all)
	}
	told := d.failures()
	if len(told) != 4 || told[nameOf(3)] != selection.TargetingError+errForeign.Error() {
		t.Errorf("told of clusters: %v", told)
	}
}

// lines counts the errors that were joined.
func lines(err error) int {
	if err == nil {
		return 0
	}
	return len(strings.Split(err.Error(), "\n"))
}

// The failure of the cluster is no longer reported after that pass.
func TestClusterAcceptsWritesAgain_IsDeployedNextPass(t *testing.T) {
	d := newDelivery(t, bundle(everywhere, mostNew(2)), 7)
	d.fail(errQuota, newOnes(0, 1, 5)...)
	if err := d.pass(t.Context()); lines(err) != 3 {
		t.Errorf("error = %v", err)
	}
	d.hub.Sync()
	d.fail(nil, newOnes(0, 1)...)
	before := d.told(t)
	if err := d.pass(t.Context()); lines(err) != 1 || !strings.Contains(err.Error(), placeOf("k-005")+"/web") {
		t.Errorf("error = %v, want that of the one that refuses", err)
	}
	if got := len(d.all(t)); got != 6 {
		t.Errorf("%d BundleDeployments, want 6", got)
	}
	if diff := cmp.Diff(map[string]string{nameOf(5): "write error: " + errQuota.Error()}, d.failures()); diff != "" {
		t.Errorf("what is told of clusters (-want +got):\n%s", diff)
	}
	if want := []int{3, 1}; !slices.Equal(*before, want) {
		t.Errorf("failing clusters told of: %v, want %v: what was told before holds until the end of the pass", *before, want)
	}
}

// told collects how many clusters fail, for every change of what is told of the Bundle, beginning with now.
func (d *delivery) told(t *testing.T) *[]int {
	t.Helper()
	told := []int{len(d.failures())}
	d.outcomes.OnChange(func(types.NamespacedName) { // is called by the pass itself
		if now := len(d.failures()); now != told[len(told)-1] {
			told = append(told, now)
		}
	})
	return &told
}

// What cannot be made for some clusters leaves the place to others, too.
func TestUnstorableValues_DoNotBlockOthers(t *testing.T) {
	d := newDelivery(t, bundle(everywhere, mostNew(1), withoutRoom(3)), 5)
	if err := d.pass(t.Context()); err != nil {
		t.Errorf("error = %v, though nothing can be tried again", err)
	}
	var created []string
	for _, bd := range d.all(t) {
		created = append(created, bd.Namespace)
	}
	if diff := cmp.Diff([]string{placeOf("k-003"), placeOf("k-004")}, created); diff != "" {
		t.Errorf("BundleDeployments (-want +got):\n%s", diff)
	}
	told := d.failures()
	if len(told) != 3 || !strings.Contains(told[nameOf(0)], "together exceed 1 MiB") {
		t.Errorf("told of clusters: %v", told)
	}
}

// An error that concerns all clusters ends the pass before all clusters are tried.
func TestErrorOfAllClusters_EndsThePass(t *testing.T) {
	tests := map[string]error{
		"no answer":                     errDown,
		"the credential is not valid":   apierrors.NewUnauthorized("expired"),
		"the API server is overloaded":  apierrors.NewTooManyRequests("later", 1),
		"the API server is unreachable": apierrors.NewServiceUnavailable("starting"),
		"the store does not answer":     apierrors.NewTimeoutError("no answer", 1),
		"the store is slow":             apierrors.NewServerTimeout(deployments, "create", 1),
		"the leadership is lost":        context.Canceled,
	}
	for name, failure := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDelivery(t, bundle(everywhere), 200)
			orphan := deployedIn("nobody", func(bd *fleet.BundleDeployment) {
				bd.Labels[fleet.LabelBundleName], bd.Labels[fleet.LabelBundleNamespace] = "web", "ws"
			})
			d.hub.Put(orphan)
			d.fail(failure, newOnes(upTo(200)...)...)
			err := d.pass(t.Context())
			if !errors.Is(err, failure) {
				t.Errorf("error = %v, want %v", err, failure)
			}
			all, _ := d.writes("create BundleDeployment", "delete BundleDeployment")
			if len(all) == 0 || len(all) > atATime || lines(err) != len(all) {
				t.Errorf("%d requests and %d errors, want no more than were under way: %v", len(all), lines(err), all)
			}
			if told := d.failures(); len(told) > 0 {
				t.Errorf("told of clusters: %v", told)
			}
			d.fail(nil, newOnes(upTo(200)...)...)
			if err := d.pass(t.Context()); err != nil || len(d.all(t)) != 200 {
				t.Errorf("the next pass: %d BundleDeployments, %v", len(d.all(t)), err)
			}
			if hubtest.Get[*fleet.BundleDeployment](d.hub, orphan.Namespace, orphan.Name) != nil {
				t.Error("what should not be there is still there")
			}
		})
	}
}

// interrupt does something at the beginning of the 60th creation, which is of the second round. The result says how many
// began afterwards.
func (d *delivery) interrupt(do func()) (more func() int) {
	var once sync.Once
	var begun atomic.Int32
	for number := range 200 {
		d.hub.Before(createOf(number), func() {
			if begun.Add(1) >= 60 {
				once.Do(do) // the others wait until it is done
			}
		})
	}
	return func() int { return int(begun.Load()) - 60 }
}

func TestPass_EndsWithItsProcessOrBundle(t *testing.T) {
	t.Run("process", func(t *testing.T) {
		d := newDelivery(t, bundle(everywhere), 200)
		ctx, cancel := context.WithCancel(t.Context())
		more := d.interrupt(cancel)
		if err := d.pass(ctx); err != nil {
			t.Errorf("error = %v", err)
		}
		if more() >= atATime {
			t.Errorf("%d requests after the end, want those that were under way", more())
		}
	})
	for name, change := range map[string]func(*fleet.Bundle){
		"bundle": func(b *fleet.Bundle) { b.Generation++ },
		"shard":  func(b *fleet.Bundle) { b.Labels = map[string]string{fleet.LabelShardRef: "another"} },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDelivery(t, bundle(everywhere), 200)
			more := d.interrupt(func() {
				b := hubtest.MustGet[*fleet.Bundle](t, d.hub, "ws", "web")
				change(b)
				d.hub.Put(b)
			})
			if err := d.pass(t.Context()); err != nil {
				t.Errorf("error = %v", err)
			}
			if more() >= atATime {
				t.Errorf("%d requests for what has changed, want those that were under way", more())
			}
		})
	}
	t.Run("content", func(t *testing.T) {
		d := newDelivery(t, bundle(everywhere), 200)
		in, err := d.gather(t.Context(), hubtest.MustGet[*fleet.Bundle](t, d.hub, "ws", "web"))
		if err != nil {
			t.Fatal(err)
		}
		request := "create Content " + content.ID(in.manifestHash)
		d.hub.Fail(request, errors.New("etcdserver: request is too large"))
		if err := d.pass(t.Context()); err != nil {
			t.Errorf("error = %v, though nobody but a user can help", err)
		}
		if diff := cmp.Diff([]string{request}, d.hub.Requests()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		if outcome, _ := d.outcomes.Get(web); outcome.Failure != selection.TargetingError+errContentTooLarge.Error() {
			t.Errorf("told: %q", outcome.Failure)
		}
		d.hub.Fail(request, errDown)
		if err := d.pass(t.Context()); !errors.Is(err, errDown) {
			t.Errorf("error = %v, want %v", err, errDown)
		}
	})
}

// The Bundle may have been corrected: the next pass knows what is an orphan.
func TestOrphans_StayIfThePassEndsBefore(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	for name, test := range map[string]struct {
		end    func(*testing.T, *delivery)
		orphan bool // in the next pass
	}{
		"the process stops": {func(*testing.T, *delivery) { cancel() }, true},
		"the Bundle is corrected": {func(t *testing.T, d *delivery) {
			t.Helper()
			d.change(t, func(b *fleet.Bundle) {
				b.Spec.Targets = []fleet.BundleTarget{{ClusterSelector: &metav1.LabelSelector{}}}
			})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDelivery(t, bundle(toCluster(nameOf(0))), 2)
			d.hub.Put(deployedIn(nameOf(1), func(bd *fleet.BundleDeployment) {
				bd.Labels[fleet.LabelBundleName], bd.Labels[fleet.LabelBundleNamespace] = "web", "ws"
			}))
			d.hub.Before(createOf(0), func() { test.end(t, d) })
			if err := d.pass(ctx); err != nil {
				t.Errorf("error = %v", err)
			}
			if hubtest.Get[*fleet.BundleDeployment](d.hub, placeOf(nameOf(1)), "web") == nil {
				t.Error("a BundleDeployment is deleted although the pass had ended")
			}
			if err := d.pass(t.Context()); err != nil {
				t.Errorf("the next pass: error = %v", err)
			}
			if gone := hubtest.Get[*fleet.BundleDeployment](d.hub, placeOf(nameOf(1)), "web") == nil; gone != test.orphan {
				t.Errorf("the next pass: deleted = %v, want %v", gone, test.orphan)
			}
		})
	}
}

func TestOrphans_AreDeletedOncePerPass(t *testing.T) {
	d := newDelivery(t, bundle(everywhere), 120)
	for _, name := range []string{"x", "y"} {
		d.hub.Put(deployedIn(name, func(bd *fleet.BundleDeployment) {
			bd.Labels[fleet.LabelBundleName], bd.Labels[fleet.LabelBundleNamespace] = "web", "ws"
		}))
	}
	d.hub.Fail("delete BundleDeployment "+placeOf("x")+"/web", errWebhook)
	if err := d.pass(t.Context()); !errors.Is(err, errWebhook) || lines(err) != 1 {
		t.Errorf("error = %v", err)
	}
	all, _ := d.writes("delete")
	slices.Sort(all)
	if diff := cmp.Diff([]string{"delete BundleDeployment " + placeOf("x") + "/web", "delete BundleDeployment " + placeOf("y") + "/web"}, all); diff != "" {
		t.Errorf("deleted (-want +got):\n%s", diff)
	}
	if got := len(d.all(t)); got != 121 {
		t.Errorf("%d BundleDeployments, want those of the clusters and the one that stays", got)
	}
}

// inTwo has the first two clusters in a partition of their own, and lets one of them be behind while the others begin.
func inTwo(b *fleet.Bundle) {
	one, most := intstr.FromInt32(1), intstr.FromInt32(2)
	two := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "n", Operator: "In", Values: []string{nameOf(0), nameOf(1)}}}}
	strategy(fleet.RolloutStrategy{MaxUnavailable: &most, Partitions: []fleet.Partition{
		{Name: "first", ClusterSelector: two, MaxUnavailable: &one}, {Name: "rest", ClusterSelector: &metav1.LabelSelector{}},
	}})(b)
}

func TestRefusedPromotion_LeavesItsRoomToOthers(t *testing.T) {
	tests := map[string]struct {
		strategy func(*fleet.Bundle)
		// refused have no quota, unsure a webhook that fails, and late are changed by another client in the meantime.
		refused, unsure, late []int
		want                  []string
	}{
		"no failure: maxUnavailable are promoted":                                 {strategy: atMost("2"), want: []string{"k-000", "k-001"}},
		"the first two refuse: the next two are promoted":                         {strategy: atMost("2"), refused: []int{0, 1}, want: []string{"k-002", "k-003"}},
		"one refuses, and so does its replacement":                                {strategy: atMost("2"), refused: []int{0, 2}, want: []string{"k-001", "k-003"}},
		"uncertain write: counts against the limit":                               {strategy: atMost("2"), unsure: []int{0}, want: []string{"k-001"}},
		"uncertain write, another round: counts against the limit":                {strategy: atMost("2"), unsure: []int{0}, refused: []int{1}, want: []string{"k-002"}},
		"conflict, which may answer a repeated request: counts against the limit": {strategy: atMost("2"), late: []int{1}, refused: []int{0}, want: []string{"k-002"}},
		"no failure: the second partition waits":                                  {strategy: inTwo, want: []string{"k-000"}},
		"first partition refuses: the second does not wait":                       {strategy: inTwo, refused: []int{0, 1}, want: []string{"k-002", "k-003"}},
		"first partition has uncertain writes: the second waits":                  {strategy: inTwo, unsure: []int{0, 1}},
		"uncertain write, others refuse: counts against the limit":                {strategy: atMost("1"), unsure: []int{0}, refused: []int{3, 4}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDelivery(t, bundle(everywhere), 6)
			if err := d.pass(t.Context()); err != nil {
				t.Fatal(err)
			}
			d.settle(t)
			d.change(t, test.strategy)
			told, failing := map[string]string{}, map[string]bool{}
			for failure, numbers := range map[error][]int{errQuota: test.refused, errWebhook: test.unsure, errFaster: test.late} {
				for _, number := range numbers {
					d.fail(failure, changeOf(number))
					failing[changeOf(number)] = true
					if failure != errFaster { //nolint:errorlint // the very same
						told[nameOf(number)] = "write error: " + failure.Error()
					}
				}
			}
			if err := d.pass(t.Context()); lines(err) != len(failing) {
				t.Errorf("error = %v, want %d", err, len(failing))
			}
			if diff := cmp.Diff(test.want, d.promoted(t), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("promoted (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(told, d.failures()); diff != "" {
				t.Errorf("what is told of clusters (-want +got):\n%s", diff)
			}
			_, times := d.writes("update BundleDeployment")
			for request := range failing {
				if times[request] != 1 {
					t.Errorf("%s was tried %d times in a pass", request, times[request])
				}
			}
		})
	}
}

// A write with an unknown result counts against the limit. If it is not wanted any more, nothing would ever tell its
// result, and a revert would wait for it without end.
func TestRevert_IsNotBlockedByAnUnknownResult(t *testing.T) {
	d := newDelivery(t, bundle(everywhere, atMost("1")), 2)
	if err := d.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.settle(t)
	d.change(t)
	d.fail(errWebhook, changeOf(1))
	for range 2 {
		if err := d.pass(t.Context()); !errors.Is(err, errWebhook) {
			t.Fatalf("error = %v, want %v", err, errWebhook)
		}
		d.apply(t) // to the first cluster
	}
	d.change(t, func(b *fleet.Bundle) { b.Spec.DefaultNamespace = "" })
	if err := d.pass(t.Context()); err != nil || len(d.promoted(t)) > 0 {
		t.Errorf("while the result is unknown: %v, promoted %v", err, d.promoted(t))
	}
	if outcome, _ := d.outcomes.Get(web); !outcome.Targets[1].Uncertain || outcome.Targets[0].Uncertain {
		t.Errorf("the status does not count it: %+v", outcome.Targets)
	}
	if wait := d.mutations.uncertainFor(web); wait <= 0 {
		t.Error("nothing enqueues the Bundle again")
	}
	d.hub.Pass(3 * time.Minute)
	d.hub.Requests()
	if err := d.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	lists, _ := d.writes("list")
	if diff := cmp.Diff([]string{"list BundleDeployment"}, lists); diff != "" {
		t.Errorf("lists (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"k-000"}, d.promoted(t)); diff != "" {
		t.Errorf("promoted later (-want +got):\n%s", diff)
	}
	if wait := d.mutations.uncertainFor(web); wait != 0 {
		t.Errorf("the Bundle is enqueued again after %s", wait)
	}
}

func TestFirstDeploymentInDoubt_CountsAgainstTheLimit(t *testing.T) {
	for name, test := range map[string]struct {
		fail error
		want []string
	}{
		"it may exist":           {errWebhook, nil},
		"it does not exist":      {errQuota, []string{"k-000"}},
		"it exists and is ready": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDelivery(t, bundle(everywhere), 3)
			if err := d.pass(t.Context()); err != nil {
				t.Fatal(err)
			}
			d.settle(t)
			d.hub.Put(cluster(nameOf(3), inPlace), cluster(nameOf(4), inPlace))
			d.fail(errQuota, createOf(4)) // there is another round, in any case
			d.fail(test.fail, createOf(3))
			d.change(t, atMost("1"))
			err := d.pass(t.Context())
			if want := map[bool]int{true: 2, false: 1}[test.fail != nil]; lines(err) != want {
				t.Errorf("error = %v, want %d", err, want)
			}
			got := slices.DeleteFunc(d.promoted(t), func(name string) bool { return name == nameOf(3) })
			if diff := cmp.Diff(test.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("promoted (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFailedContentOrFinalizer_IsReportedUntilWritten(t *testing.T) {
	stored := "create Content " + content.Manifest{}.ID()
	tests := map[string]struct {
		request string
		err     error
		told    string
		lasts   bool // it is tried again
	}{
		"a policy denies the Content":            {stored, errDenied, writeError + errDenied.Error(), true},
		"a webhook for Contents does not answer": {stored, errWebhook, writeError + errWebhook.Error(), true},
		"the Content is too large":               {stored, errors.New("etcdserver: request is too large"), selection.TargetingError + errContentTooLarge.Error(), false},
		"the API server is unreachable":          {stored, errDown, "", true},
		"a policy denies the finalizer":          {"patch Bundle ws/web", errDenied, writeError + errDenied.Error(), true},
		"a webhook for Bundles does not answer":  {"patch Bundle ws/web", errWebhook, writeError + errWebhook.Error(), true},
		"no answer to the finalizer's patch":     {"patch Bundle ws/web", errDown, "", true},
		"conflicts at each attempt":              {"patch Bundle ws/web", errFaster, "", true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDelivery(t, bundle(everywhere), 2)
			if test.request != stored {
				b := hubtest.MustGet[*fleet.Bundle](t, d.hub, "ws", "web")
				b.Finalizers = nil
				d.hub.Put(b)
			}
			d.fail(test.err, test.request)
			for range 2 { // the same each time
				if err := d.pass(t.Context()); (err != nil) != test.lasts {
					t.Errorf("error %v", err)
				}
				if outcome, _ := d.outcomes.Get(web); outcome.Failure != test.told {
					t.Errorf("told %q; want %q", outcome.Failure, test.told)
				}
				d.hub.Sync()
			}
			if all := d.all(t); len(all) > 0 {
				t.Errorf("%d are deployed", len(all))
			}
			d.fail(nil, test.request)
			if err := d.pass(t.Context()); err != nil || len(d.all(t)) != 2 {
				t.Errorf("%v, and %d are deployed", err, len(d.all(t)))
			}
			if outcome, _ := d.outcomes.Get(web); outcome.Failure != "" {
				t.Errorf("still told: %q", outcome.Failure)
			}
		})
	}
}
