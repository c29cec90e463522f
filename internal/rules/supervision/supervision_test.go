package supervision_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/rules/supervision"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// awaited is an agent deployed half a minute ago, of which nothing is seen but its Deployment.
func awaited(modifiers ...func(*supervision.Input)) supervision.Input {
	one := int32(1)
	in := supervision.Input{
		Awaited: 30 * time.Second, Quiet: 30 * time.Second, Namespace: "agents", Delivered: "t1", Token: "t1",
		Deployment: &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: &one, Template: corev1.PodTemplateSpec{
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: "registry.example/agent:v1"}}},
		}}},
	}
	for _, modify := range modifiers {
		modify(&in)
	}
	return in
}

func withPods(pods ...corev1.Pod) func(*supervision.Input) {
	return func(in *supervision.Input) { in.Pods = pods }
}

func withRefusal(message string) func(*supervision.Input) {
	return func(in *supervision.Input) {
		in.ReplicaSets = []appsv1.ReplicaSet{{Status: appsv1.ReplicaSetStatus{Conditions: []appsv1.ReplicaSetCondition{{
			Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: message,
		}}}}}
	}
}

func pod(name string, modify func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.PodStatus{Phase: corev1.PodPending}}
	if modify != nil {
		modify(&p)
	}
	return p
}

func running(p *corev1.Pod) {
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}
}

func waits(reason string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "at 10:15, try 3"}}}}
	}
}

func unschedulable(p *corev1.Pod) {
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available"}}
}

func TestSupervise(t *testing.T) {
	none := int32(0)
	after := func(quiet time.Duration, tokens int) func(*supervision.Input) {
		return func(in *supervision.Input) { in.Quiet, in.FreshTokens = quiet, tokens }
	}
	identity := func(in *supervision.Input) { in.Identity, in.Delivered = true, "" }
	known := func(in *supervision.Input) { in.Known = true }
	requested := func(in *supervision.Input) { in.Known, in.Requested = true, true }
	delivered := func(token string) func(*supervision.Input) {
		return func(in *supervision.Input) { in.Delivered = token }
	}
	runs := withPods(pod("p", running))
	tests := map[string]struct {
		in   supervision.Input
		want supervision.Outcome // without its message
	}{
		"a pod is on its way":                         {in: awaited(), want: supervision.Outcome{Stage: supervision.Starting}},
		"its container is being made":                 {in: awaited(withPods(pod("p", waits("ContainerCreating")))), want: supervision.Outcome{Stage: supervision.Starting}},
		"a Deployment that is gone comes back":        {in: awaited(func(in *supervision.Input) { in.Deployment = nil }), want: supervision.Outcome{Stage: supervision.Missing, Repair: supervision.RepairObjects}},
		"one that was scaled to nothing is put right": {in: awaited(func(in *supervision.Input) { in.Deployment.Spec.Replicas = &none }), want: supervision.Outcome{Stage: supervision.Missing, Repair: supervision.RepairObjects}},
		"a namespace that is going is waited for": {
			in:   awaited(func(in *supervision.Input) { in.Terminating, in.Deployment = true, nil }),
			want: supervision.Outcome{Stage: supervision.Troubled, Reason: fleet.ReasonNamespaceTerminating},
		},
		"it runs, and has time":                                           {in: awaited(runs), want: supervision.Outcome{Stage: supervision.Running}},
		"it runs beside a pod that is refused":                            {in: awaited(runs, withRefusal("exceeded quota: q,")), want: supervision.Outcome{Stage: supervision.Running}},
		"a pod that is going does not run":                                {in: awaited(withPods(pod("p", func(p *corev1.Pod) { running(p); p.DeletionTimestamp = &metav1.Time{} }))), want: supervision.Outcome{Stage: supervision.Starting}},
		"it runs, for long, and has asked for nothing":                    {in: awaited(runs, after(5*time.Minute, 0)), want: supervision.Outcome{Stage: supervision.Silent, FreshToken: true}},
		"a second token takes longer":                                     {in: awaited(runs, after(14*time.Minute, 1)), want: supervision.Outcome{Stage: supervision.Running}},
		"but comes":                                                       {in: awaited(runs, after(15*time.Minute, 1)), want: supervision.Outcome{Stage: supervision.Silent, FreshToken: true}},
		"after many, one every six hours":                                 {in: awaited(runs, after(6*time.Hour, 100)), want: supervision.Outcome{Stage: supervision.Silent, FreshToken: true}},
		"and not sooner":                                                  {in: awaited(runs, after(5*time.Hour, 100)), want: supervision.Outcome{Stage: supervision.Running}},
		"one that has asked is waited for":                                {in: awaited(runs, requested, after(time.Hour, 0)), want: supervision.Outcome{Stage: supervision.Running}},
		"one that had asked before it was deployed anew":                  {in: awaited(runs, known, after(time.Hour, 0)), want: supervision.Outcome{Stage: supervision.Silent, FreshToken: true}},
		"one that has registered keeps what it has":                       {in: awaited(runs, known, identity, after(time.Hour, 0)), want: supervision.Outcome{Stage: supervision.Running}},
		"an identity of which the hub knows nothing":                      {in: awaited(runs, identity), want: supervision.Outcome{Stage: supervision.Unable, Repair: supervision.RepairIdentity}},
		"an identity without a live account, after a fresh token in vain": {in: awaited(runs, func(in *supervision.Input) { in.Identity = true }, after(5*time.Minute, 0)), want: supervision.Outcome{Stage: supervision.Silent, FreshToken: true}},
		"the means to register are gone":                                  {in: awaited(runs, delivered("")), want: supervision.Outcome{Stage: supervision.Unable, Repair: supervision.RepairIdentity}},
		"they are of a token that was ended":                              {in: awaited(runs, delivered("t0")), want: supervision.Outcome{Stage: supervision.Unable, Repair: supervision.RepairIdentity}},
		"they are gone before the pod is there":                           {in: awaited(delivered("")), want: supervision.Outcome{Stage: supervision.Unable, Repair: supervision.RepairIdentity}},
		"nobody knows which token is good":                                {in: awaited(runs, func(in *supervision.Input) { in.Token = "" }), want: supervision.Outcome{Stage: supervision.Running}},
		"those of one that was heard of end with its token": {
			in:   awaited(runs, func(in *supervision.Input) { in.Token, in.Heard = "", true }),
			want: supervision.Outcome{Stage: supervision.Unable, Repair: supervision.RepairIdentity},
		},
		"and are good as long as it is": {in: awaited(runs, func(in *supervision.Input) { in.Heard = true }), want: supervision.Outcome{Stage: supervision.Running}},
		"a pod that cannot be is told, and can register": {
			in:   awaited(delivered("t0"), withRefusal(`pods "p" is forbidden: exceeded quota: q, requested: pods=1`)),
			want: supervision.Outcome{Stage: supervision.Troubled, Reason: fleet.ReasonAgentPodRejected, Repair: supervision.RepairIdentity},
		},
		"an account that is gone comes back": {
			in:   awaited(withRefusal(`pods "p" is forbidden: error looking up service account agents/fleet-agent: serviceaccount "fleet-agent" not found`)),
			want: supervision.Outcome{Stage: supervision.Troubled, Reason: fleet.ReasonAgentPodRejected, Repair: supervision.RepairObjects},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := supervision.Decide(test.in)
			if (got.Message != "") != (test.want.Reason != "") {
				t.Errorf("reason %q with the message %q", got.Reason, got.Message)
			}
			got.Message = ""
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatKeepsAnAgentFromRunning(t *testing.T) {
	refused := func(message string) supervision.Input {
		return awaited(withRefusal(`pods "fleet-agent-7c9d6-x2kzt" is forbidden: ` + message))
	}
	waiting := func(reason string) supervision.Input { return awaited(withPods(pod("p", waits(reason)))) }
	early := func(in supervision.Input) supervision.Input {
		in.Awaited = 10 * time.Second
		return in
	}
	tests := map[string]struct {
		in           supervision.Input
		reason, says string
	}{
		"a quota":                       {in: refused("exceeded quota: none, requested: pods=1, used: pods=0, limited: pods=0"), reason: fleet.ReasonAgentPodRejected, says: "ResourceQuota none of namespace agents leaves no room"},
		"a quota of resources":          {in: refused("failed quota: cpu: must specify limits.cpu for: fleet-agent"), reason: fleet.ReasonAgentPodRejected, says: "set spec.agentResources"},
		"a limit range":                 {in: refused("maximum memory usage per Container is 64Mi, but limit is 128Mi"), reason: fleet.ReasonAgentPodRejected, says: "a LimitRange of namespace agents"},
		"pod security":                  {in: refused(`violates PodSecurity "restricted:latest": seccompProfile (pod or container "fleet-agent" must set …)`), reason: fleet.ReasonAgentPodRejected, says: "pods of the level restricted"},
		"a webhook that denies":         {in: awaited(withRefusal(`admission webhook "policy.example.com" denied the request: not on 2026-11-21`)), reason: fleet.ReasonAgentPodRejected, says: "admission webhook policy.example.com downstream does not let"},
		"a webhook that is dead":        {in: awaited(withRefusal(`Internal error occurred: failed calling webhook "policy.example.com": failed to call webhook: Post "https://10.0.0.1": EOF`)), reason: fleet.ReasonAgentPodRejected, says: "admission webhook policy.example.com downstream has to be asked"},
		"a policy":                      {in: refused(`ValidatingAdmissionPolicy 'no-agents' with binding 'b' denied request: expression`), reason: fleet.ReasonAgentPodRejected, says: "ValidatingAdmissionPolicy no-agents"},
		"a namespace that is going":     {in: refused(`unable to create new content in namespace agents because it is being terminated`), reason: fleet.ReasonNamespaceTerminating, says: "is being deleted"},
		"a class that is gone":          {in: refused(`no PriorityClass with name fleet-agent-priority-class was found`), reason: fleet.ReasonAgentPodRejected, says: "put back"},
		"nobody knows what":             {in: refused(`by a rule of 10:15`), reason: fleet.ReasonAgentPodRejected, says: "kubectl describe replicaset -n agents -l app=fleet-agent"},
		"nobody says what":              {in: awaited(withRefusal("")), reason: fleet.ReasonAgentPodRejected, says: "kubectl describe replicaset"},
		"no node":                       {in: awaited(withPods(pod("p", unschedulable))), reason: fleet.ReasonAgentPodRejected, says: "no node takes the agent's pod"},
		"no node yet":                   {in: early(awaited(withPods(pod("p", unschedulable))))},
		"an image that is not there":    {in: waiting("ImagePullBackOff"), reason: fleet.ReasonAgentPodFailing, says: "image registry.example/agent:v1 cannot be pulled"},
		"an image that has no name":     {in: waiting("InvalidImageName"), reason: fleet.ReasonAgentPodFailing, says: "cannot be pulled"},
		"a registry's hiccup":           {in: early(waiting("ErrImagePull"))},
		"a registry that is gone":       {in: waiting("ErrImagePull"), reason: fleet.ReasonAgentPodFailing, says: "reaches the registry"},
		"a container that ends":         {in: early(waiting("CrashLoopBackOff")), reason: fleet.ReasonAgentPodFailing, says: "kubectl logs -n agents -l app=fleet-agent --previous"},
		"a container that has no start": {in: waiting("CreateContainerConfigError"), reason: fleet.ReasonAgentPodFailing, says: "cannot be started"},
		"an init container that ends": {in: awaited(withPods(pod("p", func(p *corev1.Pod) {
			waits("CrashLoopBackOff")(p)
			p.Status.InitContainerStatuses, p.Status.ContainerStatuses = p.Status.ContainerStatuses, nil
		}))), reason: fleet.ReasonAgentPodFailing, says: "ends as soon as it has started"},
		"a node that evicts": {in: awaited(withPods(pod("p", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }))), reason: fleet.ReasonAgentPodFailing, says: "ended by its node"},
		"what the Deployment knows": {in: awaited(func(in *supervision.Input) {
			in.Deployment.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "exceeded quota: q,"}}
		}), reason: fleet.ReasonAgentPodRejected, says: "ResourceQuota q"},
		"a trouble of a pod before": {in: awaited(func(in *supervision.Input) {
			withRefusal("exceeded quota: q,")(in)
			none := int32(0)
			in.ReplicaSets[0].Spec.Replicas = &none
		})},
		"a pod that is going": {in: awaited(withPods(pod("p", func(p *corev1.Pod) { waits("CrashLoopBackOff")(p); p.DeletionTimestamp = &metav1.Time{} })))},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := supervision.Decide(test.in)
			if got.Reason != test.reason || !strings.Contains(got.Message, test.says) {
				t.Errorf("%s: %q; want %s: …%s…", got.Reason, got.Message, test.reason, test.says)
			}
			for _, changing := range []string{"x2kzt", "10:15", "2026", "10.0.0.1", "used", "try 3"} {
				if strings.Contains(got.Message, changing) {
					t.Errorf("the message is another one with the next try: %q", got.Message)
				}
			}
		})
	}
}

// Where the agent's pod does not run, and the hub would give it another image by now, it gets that.
func TestACorrectedImage(t *testing.T) {
	deployment := func(modify func(*corev1.PodSpec)) *appsv1.Deployment {
		d := awaited().Deployment
		d.Spec.Template.Spec.Containers[0].ImagePullPolicy = corev1.PullIfNotPresent // as API servers fill it in
		modify(&d.Spec.Template.Spec)
		return d
	}
	image := func(name string) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) { s.Containers[0].Image = name }
	}
	policy := func(policy corev1.PullPolicy) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) { s.Containers[0].ImagePullPolicy = policy }
	}
	secrets := func(names ...string) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) {
			for _, name := range names {
				s.ImagePullSecrets = append(s.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
			}
		}
	}
	same, fails := func(*corev1.PodSpec) {}, withPods(pod("p", waits("ImagePullBackOff")))
	tests := map[string]struct {
		is, wanted *appsv1.Deployment
		in         func(*supervision.Input)
		want       supervision.Repair
	}{
		"the same image":                 {deployment(same), deployment(same), fails, supervision.RepairNone},
		"nobody knows which":             {deployment(same), nil, fails, supervision.RepairNone},
		"another image":                  {deployment(same), deployment(image("registry.example/agent:v2")), fails, supervision.RepairObjects},
		"for a pod that is not let in":   {deployment(same), deployment(image("v2")), withRefusal("admission webhook \"w\" denied the request"), supervision.RepairObjects},
		"for a pod that is on its way":   {deployment(same), deployment(image("v2")), withPods(pod("p", waits("ContainerCreating"))), supervision.RepairNone},
		"for an agent that runs":         {deployment(same), deployment(image("v2")), withPods(pod("p", running)), supervision.RepairNone},
		"another policy":                 {deployment(same), deployment(policy(corev1.PullAlways)), fails, supervision.RepairObjects},
		"no policy":                      {deployment(same), deployment(policy("")), fails, supervision.RepairNone},
		"a pull secret":                  {deployment(same), deployment(secrets("s")), fails, supervision.RepairObjects},
		"no pull secret any more":        {deployment(secrets("s")), deployment(same), fails, supervision.RepairObjects},
		"the same pull secrets":          {deployment(secrets("s", "t")), deployment(secrets("s", "t")), fails, supervision.RepairNone},
		"no container":                   {deployment(func(s *corev1.PodSpec) { s.Containers = nil }), deployment(image("v2")), fails, supervision.RepairNone},
		"another image, and no identity": {deployment(same), deployment(image("v2")), func(in *supervision.Input) { fails(in); in.Delivered = "" }, supervision.RepairIdentity},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := awaited(test.in)
			in.Deployment, in.Wanted = test.is, test.wanted
			if got := supervision.Decide(in).Repair; got != test.want {
				t.Errorf("got %q; want %q", got, test.want)
			}
		})
	}
}

// A refusal is told the same way whatever comes first in a list, or around it: else the condition would change for ever.
func TestTheSameTroubleIsToldTheSameWay(t *testing.T) {
	a, b := pod("a", waits("CrashLoopBackOff")), pod("b", waits("ImagePullBackOff"))
	if diff := cmp.Diff(supervision.Decide(awaited(withPods(a, b))), supervision.Decide(awaited(withPods(b, a)))); diff != "" {
		t.Errorf("by the order of pods:\n%s", diff)
	}
	sets := func(order ...int) supervision.Input {
		return awaited(func(in *supervision.Input) {
			for _, n := range order {
				withRefused := awaited(withRefusal(fmt.Sprintf("exceeded quota: q%d, used: %d", n, n)))
				set := withRefused.ReplicaSets[0]
				set.Name = fmt.Sprint("set-", n)
				in.ReplicaSets = append(in.ReplicaSets, set)
			}
		})
	}
	if diff := cmp.Diff(supervision.Decide(sets(1, 2)), supervision.Decide(sets(2, 1))); diff != "" {
		t.Errorf("by the order of replica sets:\n%s", diff)
	}
	in := awaited(withPods(b, a))
	before := fmt.Sprintf("%+v", in)
	supervision.Decide(in)
	if after := fmt.Sprintf("%+v", in); before != after {
		t.Error("the rule has changed its input")
	}
}

// What a downstream cluster says may be anything: of it, only names of objects are repeated.
func TestAHostileRefusalIsNotRepeated(t *testing.T) {
	for _, text := range []string{
		`exceeded quota: <script>alert(1)</script>,`, `admission webhook "x\nReady: True" denied`, `violates PodSecurity "eyJhbGciOi:v1"`,
		"exceeded quota: " + strings.Repeat("a", 5000) + ",", `ValidatingAdmissionPolicy '` + "\x00" + `'`,
	} {
		got := supervision.Decide(awaited(withRefusal(text)))
		if got.Reason != fleet.ReasonAgentPodRejected || len(got.Message) > 700 {
			t.Errorf("%s: %d bytes", got.Reason, len(got.Message))
		}
		for _, part := range []string{"script", "Ready: True", "eyJ", "\x00"} {
			if strings.Contains(got.Message, part) {
				t.Errorf("repeated: %q", got.Message)
			}
		}
	}
}

func TestNextLook(t *testing.T) {
	at := func(heard bool) (looks []string) {
		sum := time.Duration(0)
		for n := range 9 {
			sum += supervision.NextLook(n, heard)
			looks = append(looks, sum.String())
		}
		return looks
	}
	want := []string{"10s", "30s", "1m10s", "2m30s", "5m10s", "10m30s", "20m30s", "30m30s", "40m30s"}
	if diff := cmp.Diff(want, at(false)); diff != "" {
		t.Errorf("for one that is awaited (-want +got):\n%s", diff)
	}
	want = []string{"1m0s", "3m0s", "7m0s", "15m0s", "31m0s", "1h3m0s", "2h3m0s", "3h3m0s", "4h3m0s"}
	if diff := cmp.Diff(want, at(true)); diff != "" {
		t.Errorf("for one that has gone (-want +got):\n%s", diff)
	}
	if got := supervision.NextLook(1<<20, false); got != supervision.LastLook {
		t.Errorf("after very many: %s", got)
	}
}

func TestWhoIsSupervised(t *testing.T) {
	generation := int64(1)
	deployed := func(modify func(*fleet.Cluster)) *fleet.Cluster {
		c := &fleet.Cluster{Spec: fleet.ClusterSpec{KubeConfigSecret: "kc"}, Status: fleet.ClusterStatus{AgentDeployedGeneration: &generation}}
		modify(c)
		return c
	}
	heard := func(c *fleet.Cluster) { c.Status.Agent.LastSeen = metav1.NewTime(time.Unix(1, 0)) }
	tests := map[string]struct {
		cluster *fleet.Cluster
		stale   bool
		want    bool
	}{
		"one that is awaited":             {cluster: deployed(func(*fleet.Cluster) {}), want: true},
		"not one that is live":            {cluster: deployed(heard)},
		"one that counts as gone":         {cluster: deployed(heard), stale: true, want: true},
		"not one that comes by itself":    {cluster: deployed(func(c *fleet.Cluster) { c.Spec.KubeConfigSecret = "" }), stale: true},
		"not one that was never deployed": {cluster: deployed(func(c *fleet.Cluster) { c.Status.AgentDeployedGeneration = nil })},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := supervision.Supervised(test.cluster, test.stale); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestRefusal(t *testing.T) {
	tests := map[string]struct{ text, reason, says string }{
		"a webhook that denies":     {`admission webhook "w.example.com" denied the request: no`, fleet.ReasonAdmissionDenied, "w.example.com downstream does not take"},
		"a webhook that is dead":    {`Internal error occurred: failed calling webhook "w.example.com": EOF`, fleet.ReasonAdmissionDenied, "does not answer"},
		"a policy":                  {`deployments.apps "fleet-agent" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no`, fleet.ReasonAdmissionDenied, "ValidatingAdmissionPolicy p"},
		"a namespace that is going": {`secrets "s" is forbidden: unable to create new content in namespace n because it is being terminated`, fleet.ReasonNamespaceTerminating, "until it is gone"},
		"something else":            {`secrets "s" is forbidden: User "u" cannot create resource`, "", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			reason, message := supervision.Refusal(test.text)
			if reason != test.reason || !strings.Contains(message, test.says) || (message == "") != (reason == "") {
				t.Errorf("%s: %q", reason, message)
			}
		})
	}
}
