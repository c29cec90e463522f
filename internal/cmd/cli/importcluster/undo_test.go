package importcluster

import (
	"bytes"
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/importaccount"
	"github.com/fleet-hub/fleet/internal/cmd/cli/output"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// open returns an importer whose hub and cluster are one server.
func open(t *testing.T, objects ...runtime.Object) (*importer, *clitest.Server, *bytes.Buffer) {
	t.Helper()
	server, set, said := clitest.Start(t, objects...), pflag.NewFlagSet("", pflag.ContinueOnError), &bytes.Buffer{}
	o := &options{flags: access.NewFlags(), name: "east", clusterContext: "east", asIs: true, clock: time.Now, streams: genericiooptions.IOStreams{ErrOut: said}}
	o.flags.Bind(set)
	if err := set.Parse([]string{"--kubeconfig", server.Kubeconfig}); err != nil {
		t.Fatal(err)
	}
	cluster, err := o.flags.Open()
	if err != nil {
		t.Fatal(err)
	}
	return &importer{options: o, hub: cluster, cluster: cluster, account: importaccount.New(cluster.Core, "uid-hub", "fleet-default", "east"), kubeconfig: []byte("x")}, server, said
}

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "fleet-default", Name: name}
}

func TestInsecureKubeconfig_FollowsTheHub(t *testing.T) {
	const deployment = "GET /apis/apps/v1/namespaces/cattle-fleet-system/deployments/fleet-controller"
	controller := func(env ...corev1.EnvVar) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: names.SystemNamespace, Name: names.ControllerConfig}}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "fleet-controller", Env: env}}
		return d
	}
	allowed := corev1.EnvVar{Name: "FLEET_ALLOW_INSECURE_KUBECONFIGS", Value: "true"}
	for name, test := range map[string]struct {
		controller *appsv1.Deployment
		refuse     int
		code       exit.Code
		said       string
	}{
		"hub allows it":           {controller(allowed), 0, exit.Done, ""},
		"hub does not allow it":   {controller(), 0, exit.Refused, ""},
		"settings cannot be read": {controller(), 403, exit.Done, "You cannot read the hub's settings, so this is tried"},
	} {
		t.Run(name, func(t *testing.T) {
			i, server, said := open(t, test.controller)
			if test.refuse > 0 {
				server.Refuse(deployment, test.refuse)
			}
			i.asIs, i.address = false, "https://192.0.2.7:6443"
			i.cluster = &access.Cluster{Config: &rest.Config{TLSClientConfig: rest.TLSClientConfig{Insecure: true}}}
			err := i.checkKubeconfig(t.Context(), i.flags)
			if exit.CodeOf(err) != test.code || (said.Len() > 0) != (test.said != "") || !strings.Contains(said.String(), test.said) {
				t.Errorf("%v, %s", err, said)
			}
		})
	}
}

func TestClusterOfAnotherName_IsNotImportedTwice(t *testing.T) {
	const theirs = "cluster-fleet-default-west-1"
	agent := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: names.SystemNamespace, Name: names.Agent}, Data: protocol.Identity{
		Kubeconfig: []byte("k"), DeploymentNamespace: theirs, ClusterNamespace: "fleet-default", ClusterName: "west",
	}.Encode()}
	west := func(namespace string) *fleet.Cluster {
		return &fleet.Cluster{ObjectMeta: named("west"), Status: fleet.ClusterStatus{Namespace: namespace}}
	}
	for name, test := range map[string]struct {
		objects []runtime.Object
		code    exit.Code
	}{
		"agent of a Cluster of this hub":  {[]runtime.Object{agent, west(theirs)}, exit.Refused},
		"agent of a Cluster that is gone": {[]runtime.Object{agent}, exit.Done},
		"agent of another hub":            {[]runtime.Object{agent, west("another")}, exit.Done},
		"no agent":                        {[]runtime.Object{west(theirs)}, exit.Done},
		"second agent in a namespace of its own": {[]runtime.Object{agent, west(theirs),
			&fleet.Cluster{ObjectMeta: named("east"), Spec: fleet.ClusterSpec{AgentNamespace: "second"}}}, exit.Done},
		"its own agent": {[]runtime.Object{&corev1.Secret{ObjectMeta: agent.ObjectMeta, Data: protocol.Identity{
			Kubeconfig: []byte("k"), DeploymentNamespace: "own", ClusterNamespace: "fleet-default", ClusterName: "east",
		}.Encode()}, &fleet.Cluster{ObjectMeta: named("east"), Status: fleet.ClusterStatus{Namespace: "own"}}}, exit.Done},
	} {
		t.Run(name, func(t *testing.T) {
			i, _, _ := open(t, test.objects...)
			_, err := i.decide(t.Context())
			if exit.CodeOf(err) != test.code || (err != nil && !strings.Contains(exit.Text(err), "registered as Cluster fleet-default/west")) {
				t.Errorf("code %d: %v", exit.CodeOf(err), err)
			}
		})
	}
}

// A cluster was imported, and import runs again.
func TestImportedCluster_IsImportedAgainIfTheHubHasLostIt(t *testing.T) {
	const address, theirs = "https://203.0.113.7:6443", "cluster-fleet-default-east-1"
	agent := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: names.SystemNamespace, Name: names.Agent}, Data: protocol.Identity{
		Kubeconfig: []byte("k"), DeploymentNamespace: theirs, ClusterNamespace: "fleet-default", ClusterName: "east",
	}.Encode()}
	east := &fleet.Cluster{ObjectMeta: named("east"), Spec: fleet.ClusterSpec{KubeConfigSecret: "east-kubeconfig"}, Status: fleet.ClusterStatus{Namespace: theirs}}
	east.Status.Agent.LastSeen = metav1.Now()
	account, binding, token := importaccount.New(nil, "uid-hub", "fleet-default", "east").Objects()
	token.Data = map[string][]byte{corev1.ServiceAccountTokenKey: []byte("now")}
	denied := east.DeepCopy()
	denied.Status.Conditions = []genericcondition.GenericCondition{{Type: conditions.Imported, Status: corev1.ConditionFalse, Reason: conditions.ReasonAdmissionDenied}}
	for name, test := range map[string]struct {
		cluster []runtime.Object
		given   *corev1.Secret
		want    step
	}{
		"nothing has changed":             {[]runtime.Object{agent, account, binding, token}, kubeconfigOf(t, address, "now"), stepNothing},
		"the cluster was created again":   {nil, kubeconfigOf(t, address, "former"), stepWait},
		"the account was deleted":         {[]runtime.Object{agent}, kubeconfigOf(t, address, "now"), stepWait},
		"its rights were deleted":         {[]runtime.Object{agent, account, token}, kubeconfigOf(t, address, "now"), stepWait},
		"its last import was denied":      {[]runtime.Object{agent, account, binding, token, denied}, kubeconfigOf(t, address, "now"), stepWait},
		"its token is another one":        {[]runtime.Object{agent, account, binding, token}, kubeconfigOf(t, address, "former"), stepWait},
		"the cluster has another address": {[]runtime.Object{agent, account, binding, token}, kubeconfigOf(t, "https://203.0.113.8:6443", "now"), stepWait},
	} {
		t.Run(name, func(t *testing.T) {
			i, server, _ := open(t, append([]runtime.Object{east, test.given}, test.cluster...)...)
			i.address, i.asIs, i.cluster.Config = address, false, &rest.Config{}
			todo, err := i.decide(t.Context())
			if err != nil || todo != test.want || len(server.Writes()) > 0 {
				t.Errorf("step %q, error %v, requests %v", todo, err, server.Writes())
			}
		})
	}
}

func TestWorkspaceThatDoesNotExist_IsRefusedBeforeTheFirstWrite(t *testing.T) {
	i, server, _ := open(t)
	if err := i.checkWorkspace(t.Context()); exit.CodeOf(err) != exit.Preflight || len(server.Writes()) > 0 {
		t.Errorf("error %v, requests %v", err, server.Writes())
	}
	i, _, _ = open(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "fleet-default"}})
	if err := i.checkWorkspace(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestInterruptedImport_LeavesTheHubAsItWas(t *testing.T) {
	secret := &corev1.Secret{ObjectMeta: named("east-kubeconfig")}
	for name, test := range map[string]struct {
		todo   step
		before []runtime.Object
		writes int
	}{
		"Cluster is created":  {stepCreate, nil, 2},
		"Cluster has existed": {stepChange, []runtime.Object{&fleet.Cluster{ObjectMeta: named("east"), Spec: fleet.ClusterSpec{ClientID: "c"}}}, 2},
	} {
		for at := range test.writes {
			t.Run(name, func(t *testing.T) {
				i, server, _ := open(t, test.before...)
				if todo, err := i.decide(t.Context()); err != nil || todo != test.todo {
					t.Fatal(todo, err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				count := 0
				server.React = func(*clitest.Server, string, *clitest.Object) {
					if count == at {
						cancel()
					}
					count++
				}
				if err := i.write(ctx, test.todo); err == nil || len(server.Writes()) != at+1 {
					t.Errorf("error %v, requests %v", err, server.Writes())
				}
				i.undo(t.Context())
				cluster := server.Get(&fleet.Cluster{ObjectMeta: named("east")})
				if server.Get(secret) != nil || (cluster != nil) != (test.before != nil) {
					t.Errorf("requests %v", server.Writes())
				}
				if cluster == nil {
					return
				}
				spec, _ := cluster.Object["spec"].(map[string]any)
				if _, found := spec["kubeConfigSecret"]; found || spec["clientID"] != "c" {
					t.Errorf("spec %v", spec)
				}
			})
		}
	}
}

func TestSecretThatAppears_IsNotOverwritten(t *testing.T) {
	i, server, _ := open(t, &corev1.Secret{ObjectMeta: named("east-kubeconfig")})
	err := i.write(t.Context(), stepCreate)
	if exit.CodeOf(err) != exit.Refused || len(server.Writes()) != 1 {
		t.Errorf("error %v, requests %v", err, server.Writes())
	}
}

// kubeconfigOf returns a Secret of an import with the kubeconfig of an address.
func kubeconfigOf(t *testing.T, server, token string) *corev1.Secret {
	t.Helper()
	stored, err := own(&rest.Config{}, server, token)
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: named("east-kubeconfig"), Data: map[string][]byte{protocol.KubeconfigValueKey: stored}}
	secret.Labels = importaccount.Labels()
	return secret
}

func TestSecretOfAnotherImport_IsNotOverwritten(t *testing.T) {
	const address = "https://203.0.113.7:6443"
	for name, test := range map[string]struct {
		server string
		other  *fleet.Cluster
		code   exit.Code
	}{
		"same address":                            {address, nil, exit.Done},
		"another address":                         {"https://203.0.113.8:6443", nil, exit.Refused},
		"another Cluster names it":                {address, &fleet.Cluster{ObjectMeta: named("west"), Spec: fleet.ClusterSpec{KubeConfigSecret: "east-kubeconfig"}}, exit.Refused},
		"a Cluster of another workspace names it": {address, &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "west"}, Spec: fleet.ClusterSpec{KubeConfigSecret: "east-kubeconfig", KubeConfigSecretNamespace: "fleet-default"}}, exit.Refused},
	} {
		t.Run(name, func(t *testing.T) {
			before := kubeconfigOf(t, test.server, "before")
			objects := []runtime.Object{before}
			if test.other != nil {
				objects = append(objects, test.other)
			}
			i, server, _ := open(t, objects...)
			i.address, i.kubeconfig = address, kubeconfigOf(t, address, "now").Data[protocol.KubeconfigValueKey]
			stored := func() string {
				value, _, _ := unstructured.NestedString(server.Get(before).Object, "data", protocol.KubeconfigValueKey)
				return value
			}
			was := stored()
			if err := i.write(t.Context(), stepCreate); exit.CodeOf(err) != test.code {
				t.Fatalf("error %v, requests %v", err, server.Writes())
			}
			if changed := stored() != was; changed != (test.code == exit.Done) {
				t.Errorf("changed: %v", changed)
			}
			i.undo(t.Context())
			if stored() != was {
				t.Error("undo did not restore the kubeconfig")
			}
		})
	}
}

func TestUndo_KeepsAKubeconfigThatAnotherClientHasWritten(t *testing.T) {
	const address = "https://203.0.113.7:6443"
	i, server, _ := open(t, kubeconfigOf(t, address, "before"))
	i.address, i.kubeconfig = address, kubeconfigOf(t, address, "now").Data[protocol.KubeconfigValueKey]
	if err := i.write(t.Context(), stepCreate); err != nil {
		t.Fatal(err)
	}
	later := kubeconfigOf(t, address, "later")
	server.Put(later)
	writes := len(server.Writes())
	i.undo(t.Context())
	if got := server.Writes()[writes:]; len(got) != 1 { // the Cluster is deleted
		t.Errorf("requests %v", got)
	}
}

// The Cluster that was decided on is replaced before it is changed.
func TestClusterThatChanges_IsDecidedAgain(t *testing.T) {
	for name, test := range map[string]struct {
		lastSeen bool
		code     exit.Code
	}{"still without an agent": {false, exit.Done}, "its agent reports by now": {true, exit.Refused}} {
		t.Run(name, func(t *testing.T) {
			cluster := &fleet.Cluster{ObjectMeta: named("east")}
			cluster.UID = "1"
			i, server, _ := open(t, cluster)
			todo, err := i.decide(t.Context())
			if err != nil || todo != stepChange {
				t.Fatal(todo, err)
			}
			another := &fleet.Cluster{ObjectMeta: named("east")}
			another.UID = "2"
			if test.lastSeen {
				another.Status.Agent.LastSeen = metav1.Now()
			}
			server.Put(another)
			if err := i.write(t.Context(), todo); exit.CodeOf(err) != test.code {
				t.Errorf("error %v, requests %v", err, server.Writes())
			}
			secret, _, _ := unstructured.NestedString(server.Get(another).Object, "spec", "kubeConfigSecret")
			if (secret == "east-kubeconfig") != (test.code == exit.Done) {
				t.Errorf("Secret %q", secret)
			}
		})
	}
}

// An admission webhook of the cluster does not answer at the first attempt of the hub.
func TestClusterThatDeniesTheAgent_EndsTheImportOnlyAfterThirtySeconds(t *testing.T) {
	east := func(status corev1.ConditionStatus, reason string) *fleet.Cluster {
		c := &fleet.Cluster{ObjectMeta: named("east")}
		c.Status.Conditions = []genericcondition.GenericCondition{{Type: conditions.Imported, Status: status, Reason: reason}}
		return c
	}
	reporting := east(corev1.ConditionTrue, "")
	reporting.Status.Agent.LastSeen = metav1.Now()
	for name, test := range map[string]struct {
		problem string
		later   *fleet.Cluster // from the third look on
		code    exit.Code
		looks   int
	}{
		"denied, then reporting: imported":       {conditions.ReasonAdmissionDenied, reporting, exit.Done, 3},
		"denied for 30 s: refused":               {conditions.ReasonAdmissionDenied, nil, exit.Refused, 4},
		"problem of the kubeconfig: refused now": {conditions.ReasonKubeconfigRefused, nil, exit.Refused, 1},
	} {
		t.Run(name, func(t *testing.T) {
			i, server, _ := open(t, east(corev1.ConditionFalse, test.problem))
			looks, now := 0, time.Now()
			i.timeout = time.Minute
			i.clock = func() time.Time { // is called once at the start and then at each look
				if looks++; looks == 3 && test.later != nil {
					server.Put(test.later)
				}
				return now.Add(time.Duration(looks) * outsideTime / 3)
			}
			if _, err := i.await(t.Context(), stepCreate); exit.CodeOf(err) != test.code || looks-1 != test.looks {
				t.Errorf("after %d looks: error %v", looks-1, err)
			}
		})
	}
}

func TestAgentThatStays_IsNamed(t *testing.T) {
	agent := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: names.SystemNamespace, Name: names.Agent}}
	for name, before := range map[string]bool{"of the import": false, "of before": true} {
		t.Run(name, func(t *testing.T) {
			i, server, said := open(t)
			if before {
				server.Put(agent)
			}
			if err := i.write(t.Context(), stepCreate); err != nil {
				t.Fatal(err)
			}
			server.Put(agent)
			i.undo(t.Context())
			if got := strings.Contains(said.String(), "kubectl --kubeconfig "+server.Kubeconfig+" --context east delete namespace cattle-fleet-system"); got == before {
				t.Error(said.String())
			}
		})
	}
}

// The hub's API server restarts while the import waits. To undo the import would remove a cluster that is about to report.
func TestHubThatFailsForAMoment_ImportGoesOn(t *testing.T) {
	east := &fleet.Cluster{ObjectMeta: named("east")}
	east.Status.Agent.LastSeen = metav1.NewTime(clitest.Noon())
	conditions.Set(&east.Status.Conditions, clitest.Noon(), genericcondition.GenericCondition{Type: conditions.Imported, Status: corev1.ConditionTrue})
	i, server, _ := open(t, east)
	i.timeout = time.Minute
	var requests atomic.Int32
	server.Fails = func() bool { return requests.Add(1) <= 3 }
	if _, err := i.await(t.Context(), stepCreate); err != nil {
		t.Errorf("after %d requests: %v", requests.Load(), err)
	}
}

// The Cluster has the condition of an attempt that failed before this run.
func TestImportAgain_JudgesTheNextAttempt(t *testing.T) {
	agent := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: names.SystemNamespace, Name: names.Agent}, Data: protocol.Identity{
		Kubeconfig: []byte("k"), DeploymentNamespace: "own", ClusterNamespace: "fleet-default", ClusterName: "east",
	}.Encode()}
	failed := func(reason, at string) *fleet.Cluster {
		east := &fleet.Cluster{ObjectMeta: named("east"), Spec: fleet.ClusterSpec{KubeConfigSecret: "east-kubeconfig"}}
		east.Status.Conditions = []genericcondition.GenericCondition{{Type: conditions.Imported, Status: corev1.ConditionFalse, Reason: reason, Message: "m", LastUpdateTime: at}}
		return east
	}
	imported := failed("", "12:00")
	imported.Status.Namespace, imported.Status.Agent.LastSeen = "own", metav1.NewTime(clitest.Noon())
	imported.Status.Conditions[0].Status = corev1.ConditionTrue
	for name, test := range map[string]struct {
		reason     string
		next       *fleet.Cluster
		code       exit.Code
		generation bool
	}{
		"cause on the cluster, not tried again yet": {conditions.ReasonAdmissionDenied, nil, exit.Timeout, true},
		"cause on the cluster, corrected":           {conditions.ReasonAdmissionDenied, imported, exit.Done, true},
		"cause on the cluster, the same again":      {conditions.ReasonAdmissionDenied, failed(conditions.ReasonAdmissionDenied, "12:00"), exit.Refused, true},
		"kubeconfig, not tried again yet":           {conditions.ReasonKubeconfigRefused, nil, exit.Timeout, false},
		"kubeconfig, another cause":                 {conditions.ReasonKubeconfigRefused, failed(conditions.ReasonKubeconfigExpired, "11:00"), exit.Refused, false},
		"another Cluster, which was unregistered":   {conditions.ReasonImportedTwice, imported, exit.Done, false},
		"another Cluster, not tried again yet":      {conditions.ReasonImportedTwice, nil, exit.Timeout, false},
	} {
		t.Run(name, func(t *testing.T) {
			east, given := failed(test.reason, "11:00"), kubeconfigOf(t, "https://203.0.113.7:6443", "former")
			i, server, _ := open(t, east, given, agent)
			now := clitest.Noon()
			i.timeout, i.address, i.kubeconfig = time.Minute, "https://203.0.113.7:6443", kubeconfigOf(t, "https://203.0.113.7:6443", "now").Data[protocol.KubeconfigValueKey]
			if test.code == exit.Timeout {
				i.timeout = 50 * time.Millisecond
			}
			i.clock = func() time.Time { // what Clusters show for a moment is over at the first look
				defer func() { now = now.Add(outsideTime) }()
				return now
			}
			todo, err := i.decide(t.Context())
			if err != nil || todo != stepWait {
				t.Fatal(todo, err)
			}
			if err := i.write(t.Context(), todo); err != nil {
				t.Fatal(err)
			}
			generation, _, _ := unstructured.NestedFieldNoCopy(server.Get(east).Object, "spec", "redeployAgentGeneration")
			if (generation != nil) != test.generation {
				t.Errorf("generation %v, requests %v", generation, server.Writes())
			}
			if test.next != nil {
				server.Put(test.next)
			}
			_, err = i.await(t.Context(), todo)
			if exit.CodeOf(err) != test.code || test.code != exit.Done && test.next == nil && !strings.Contains(exit.Text(err), "error: m\nreason: "+test.reason+" ") {
				t.Errorf("code %d: %s", exit.CodeOf(err), exit.Text(err))
			}
		})
	}
}

func TestClusterThatNamesTheKubeconfig_GetsTheLabels(t *testing.T) {
	for _, todo := range []step{stepWait, stepNothing} {
		east := &fleet.Cluster{ObjectMeta: named("east"), Spec: fleet.ClusterSpec{KubeConfigSecret: "east-kubeconfig"}}
		east.Labels = map[string]string{"a": "b"}
		i, server, _ := open(t, east)
		i.existing, i.labels = east, map[string]string{"env": "prod"}
		if err := i.write(t.Context(), todo); err != nil {
			t.Fatal(err)
		}
		if got := server.Get(east).GetLabels(); got["env"] != "prod" || got["a"] != "b" {
			t.Errorf("step %s: labels %v", todo, got)
		}
	}
}

// An agent that reports keeps its identity: a new registration could be refused for the same cause.
func TestDeniedImportOfAReportingCluster_StartsNoRegistration(t *testing.T) {
	east := &fleet.Cluster{ObjectMeta: named("east"), Spec: fleet.ClusterSpec{KubeConfigSecret: "east-kubeconfig"}}
	east.Status.Agent.LastSeen = metav1.NewTime(clitest.Noon())
	east.Status.Conditions = []genericcondition.GenericCondition{{Type: conditions.Imported, Status: corev1.ConditionFalse, Reason: conditions.ReasonAdmissionDenied}}
	given := kubeconfigOf(t, "https://203.0.113.7:6443", "now")
	i, server, _ := open(t, east, given)
	i.existing, i.address, i.kubeconfig = east, "https://203.0.113.7:6443", given.Data[protocol.KubeconfigValueKey]
	if err := i.write(t.Context(), stepWait); err != nil {
		t.Fatal(err)
	}
	if generation, is, _ := unstructured.NestedFieldNoCopy(server.Get(east).Object, "spec", "redeployAgentGeneration"); is {
		t.Errorf("generation %v, requests %v", generation, server.Writes())
	}
}

func TestExitCode_IsPreflightUntilSomethingHasChanged(t *testing.T) {
	const read, create = "GET /apis/fleet.cattle.io/v1alpha1/namespaces/fleet-default/clusters/east", "POST /api/v1/namespaces/fleet-default/secrets"
	for name, test := range map[string]struct {
		todo    step
		labels  map[string]string
		account bool
		refused string
		status  int
		want    exit.Code
	}{
		"imported before":                      {stepNothing, nil, false, read, 401, exit.Preflight},
		"imported before, and labels added":    {stepNothing, map[string]string{"env": "prod"}, false, read, 401, exit.Failed},
		"workspace does not exist":             {stepCreate, nil, false, create, 404, exit.Preflight},
		"workspace does not exist, an account": {stepCreate, nil, true, create, 404, exit.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			east := &fleet.Cluster{ObjectMeta: named("east"), Spec: fleet.ClusterSpec{KubeConfigSecret: "east-kubeconfig"}}
			account, binding, token := importaccount.New(nil, "uid-hub", "fleet-default", "east").Objects()
			token.Data = map[string][]byte{corev1.ServiceAccountTokenKey: []byte("now")}
			i, server, _ := open(t, east, account, binding, token)
			i.existing, i.labels, i.asIs, i.timeout = east, test.labels, !test.account, time.Minute
			server.Refuse(test.refused, test.status)
			if _, err := i.execute(t.Context(), test.todo); exit.CodeOf(err) != test.want {
				t.Errorf("code %d, want %d: %v; writes %v", exit.CodeOf(err), test.want, err, server.Writes())
			}
		})
	}
}

func TestPreview_ShowsThatTheHubTriesAgain(t *testing.T) {
	for name, test := range map[string]struct {
		reason   string
		reported bool
		want     bool
	}{
		"failed for a cause on the cluster":           {conditions.ReasonAdmissionDenied, false, true},
		"the same, and the agent reports":             {conditions.ReasonAdmissionDenied, true, false},
		"failed for the kubeconfig, which is written": {conditions.ReasonKubeconfigRefused, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			east := &fleet.Cluster{ObjectMeta: named("east"), Spec: fleet.ClusterSpec{KubeConfigSecret: "east-kubeconfig", RedeployAgentGeneration: 3}}
			east.Status.Conditions = []genericcondition.GenericCondition{{Type: conditions.Imported, Status: corev1.ConditionFalse, Reason: test.reason}}
			if test.reported {
				east.Status.Agent.LastSeen = metav1.NewTime(clitest.Noon())
			}
			i, _, _ := open(t, east)
			var out bytes.Buffer
			i.existing, i.streams.Out, i.format = east, &out, output.YAML
			if err := i.preview(stepWait); err != nil || strings.Contains(out.String(), "redeployAgentGeneration: 4") != test.want {
				t.Errorf("%v\n%s", err, out.String())
			}
		})
	}
}
