package supervision_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/rules/supervision"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// awaited returns the input for an agent deployed 30 seconds ago, of which only the Deployment exists.
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
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "fleet-agent", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}
}

func waits(reason string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "fleet-agent", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "at 10:15, try 3"}}}}
	}
}

func sidecarWaits(reason string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		waits(reason)(p)
		p.Status.ContainerStatuses[0].Name = "istio-proxy"
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
	rejected := func(in *supervision.Input) { in.Rejected = true }
	requested := func(in *supervision.Input) { in.Known, in.Requested = true, true }
	delivered := func(token string) func(*supervision.Input) {
		return func(in *supervision.Input) { in.Delivered = token }
	}
	runs := withPods(pod("p", running))
	tests := map[string]struct {
		in   supervision.Input
		want supervision.Outcome // without its message
	}{
		"no pod yet: starting":                     {in: awaited(), want: supervision.Outcome{Stage: supervision.Starting}},
		"container is being created: starting":     {in: awaited(withPods(pod("p", waits("ContainerCreating")))), want: supervision.Outcome{Stage: supervision.Starting}},
		"Deployment deleted: applied again":        {in: awaited(func(in *supervision.Input) { in.Deployment = nil }), want: supervision.Outcome{Stage: supervision.Missing, Repair: supervision.RepairObjects}},
		"Deployment scaled to zero: applied again": {in: awaited(func(in *supervision.Input) { in.Deployment.Spec.Replicas = &none }), want: supervision.Outcome{Stage: supervision.Missing, Repair: supervision.RepairObjects}},
		"namespace terminating: awaited": {
			in:   awaited(func(in *supervision.Input) { in.Terminating, in.Deployment = true, nil }),
			want: supervision.Outcome{Stage: supervision.Troubled, Reason: conditions.ReasonNamespaceTerminating},
		},
		"agent runs: has time":                                                           {in: awaited(runs), want: supervision.Outcome{Stage: supervision.Running}},
		"agent runs beside a refused pod: running":                                       {in: awaited(runs, withRefusal("exceeded quota: q,")), want: supervision.Outcome{Stage: supervision.Running}},
		"pod terminating: does not count as running":                                     {in: awaited(withPods(pod("p", func(p *corev1.Pod) { running(p); p.DeletionTimestamp = &metav1.Time{} }))), want: supervision.Outcome{Stage: supervision.Starting}},
		"agent runs for long without a request: fresh token":                             {in: awaited(runs, after(5*time.Minute, 0)), want: supervision.Outcome{Stage: supervision.Silent, FreshToken: true}},
		"after one fresh token: longer pause":                                            {in: awaited(runs, after(14*time.Minute, 1)), want: supervision.Outcome{Stage: supervision.Running}},
		"after one fresh token, pause is over: another fresh token":                      {in: awaited(runs, after(15*time.Minute, 1)), want: supervision.Outcome{Stage: supervision.Silent, FreshToken: true}},
		"after many fresh tokens: one every six hours":                                   {in: awaited(runs, after(6*time.Hour, 100)), want: supervision.Outcome{Stage: supervision.Silent, FreshToken: true}},
		"after many fresh tokens: not before six hours":                                  {in: awaited(runs, after(5*time.Hour, 100)), want: supervision.Outcome{Stage: supervision.Running}},
		"agent has made a request: awaited":                                              {in: awaited(runs, requested, after(time.Hour, 0)), want: supervision.Outcome{Stage: supervision.Running}},
		"agent made its request before it was deployed again: fresh token":               {in: awaited(runs, known, after(time.Hour, 0)), want: supervision.Outcome{Stage: supervision.Silent, FreshToken: true}},
		"agent has registered: keeps its identity":                                       {in: awaited(runs, known, identity, after(time.Hour, 0)), want: supervision.Outcome{Stage: supervision.Running}},
		"identity unknown to the hub, token outdated: identity is delivered":             {in: awaited(runs, identity), want: supervision.Outcome{Stage: supervision.Unable, Repair: supervision.RepairIdentity}},
		"identity without a live account, fresh token did not help: another fresh token": {in: awaited(runs, func(in *supervision.Input) { in.Identity = true }, after(5*time.Minute, 0)), want: supervision.Outcome{Stage: supervision.Silent, FreshToken: true}},
		"bootstrap Secret deleted: delivered again":                                      {in: awaited(runs, delivered("")), want: supervision.Outcome{Stage: supervision.Unable, Repair: supervision.RepairIdentity}},
		"bootstrap Secret of an ended token: delivered again":                            {in: awaited(runs, delivered("t0")), want: supervision.Outcome{Stage: supervision.Unable, Repair: supervision.RepairIdentity}},
		"bootstrap Secret deleted before the pod starts: delivered again":                {in: awaited(delivered("")), want: supervision.Outcome{Stage: supervision.Unable, Repair: supervision.RepairIdentity}},
		"stored token is rejected: registers again":                                      {in: awaited(runs, known, identity, rejected), want: supervision.Outcome{Stage: supervision.Unable, Repair: supervision.RepairRejected}},
		"stored token is rejected, bootstrap Secret is there: awaited":                   {in: awaited(runs, known, rejected, func(in *supervision.Input) { in.Identity = true }), want: supervision.Outcome{Stage: supervision.Running}},
		"stored token of another account is rejected: identity is delivered":             {in: awaited(runs, identity, rejected), want: supervision.Outcome{Stage: supervision.Unable, Repair: supervision.RepairIdentity}},
		"hub has no import token, agent is new: awaited":                                 {in: awaited(runs, func(in *supervision.Input) { in.Token = "" }), want: supervision.Outcome{Stage: supervision.Running}},
		"hub has no import token, agent has reported before: bootstrap Secret is delivered again": {
			in:   awaited(runs, func(in *supervision.Input) { in.Token, in.Heard = "", true }),
			want: supervision.Outcome{Stage: supervision.Unable, Repair: supervision.RepairIdentity},
		},
		"hub has the import token, agent has reported before: awaited": {in: awaited(runs, func(in *supervision.Input) { in.Heard = true }), want: supervision.Outcome{Stage: supervision.Running}},
		"pod refused, bootstrap Secret outdated: reported and delivered again": {
			in:   awaited(delivered("t0"), withRefusal(`pods "p" is forbidden: exceeded quota: q, requested: pods=1`)),
			want: supervision.Outcome{Stage: supervision.Troubled, Reason: conditions.ReasonAgentPodRejected, Repair: supervision.RepairIdentity},
		},
		"ServiceAccount deleted: applied again": {
			in:   awaited(withRefusal(`pods "p" is forbidden: error looking up service account agents/fleet-agent: serviceaccount "fleet-agent" not found`)),
			want: supervision.Outcome{Stage: supervision.Troubled, Reason: conditions.ReasonAgentPodRejected, Repair: supervision.RepairObjects},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := supervision.Decide(test.in)
			if (got.Message != "") != (test.want.Reason != "") {
				t.Errorf("reason %q with message %q", got.Reason, got.Message)
			}
			got.Message = ""
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecide_NamesTheProblemOfThePod(t *testing.T) {
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
		"quota exceeded":                   {in: refused("exceeded quota: none, requested: pods=1, used: pods=0, limited: pods=0"), reason: conditions.ReasonAgentPodRejected, says: "ResourceQuota none of namespace agents leaves no room"},
		"quota requires resources":         {in: refused("failed quota: cpu: must specify limits.cpu for: fleet-agent"), reason: conditions.ReasonAgentPodRejected, says: "set spec.agentResources"},
		"LimitRange exceeded":              {in: refused("maximum memory usage per Container is 64Mi, but limit is 128Mi"), reason: conditions.ReasonAgentPodRejected, says: "a LimitRange of namespace agents"},
		"pod security":                     {in: refused(`violates PodSecurity "restricted:latest": seccompProfile (pod or container "fleet-agent" must set …)`), reason: conditions.ReasonAgentPodRejected, says: "pods of Pod Security level restricted"},
		"pod security, the command":        {in: refused(`violates PodSecurity "restricted:latest": seccompProfile`), reason: conditions.ReasonAgentPodRejected, says: "kubectl label namespace agents --overwrite pod-security.kubernetes.io/enforce=baseline"},
		"pod security, host network":       {in: refused(`violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)`), reason: conditions.ReasonAgentPodRejected, says: "set spec.hostNetwork of this Cluster to false"},
		"a webhook that denies":            {in: awaited(withRefusal(`admission webhook "policy.example.com" denied the request: not on 2026-11-21`)), reason: conditions.ReasonAgentPodRejected, says: "admission webhook policy.example.com downstream denies"},
		"a webhook that does not answer":   {in: awaited(withRefusal(`Internal error occurred: failed calling webhook "policy.example.com": failed to call webhook: Post "https://10.0.0.1": EOF`)), reason: conditions.ReasonAgentPodRejected, says: "admission webhook policy.example.com downstream has to admit"},
		"a policy":                         {in: refused(`ValidatingAdmissionPolicy 'no-agents' with binding 'b' denied request: expression`), reason: conditions.ReasonAgentPodRejected, says: "ValidatingAdmissionPolicy no-agents"},
		"a terminating namespace":          {in: refused(`unable to create new content in namespace agents because it is being terminated`), reason: conditions.ReasonNamespaceTerminating, says: "is being deleted"},
		"a namespace being deleted":        {in: awaited(func(in *supervision.Input) { in.Terminating = true }), reason: conditions.ReasonNamespaceTerminating, says: "kubectl describe namespace agents"},
		"a deleted PriorityClass":          {in: refused(`no PriorityClass with name fleet-agent-priority-class was found`), reason: conditions.ReasonAgentPodRejected, says: "applied again"},
		"unknown refusal":                  {in: refused(`by a rule of 10:15`), reason: conditions.ReasonAgentPodRejected, says: "kubectl describe replicaset -n agents -l app=fleet-agent"},
		"empty refusal":                    {in: awaited(withRefusal("")), reason: conditions.ReasonAgentPodRejected, says: "kubectl describe replicaset"},
		"unschedulable for long":           {in: awaited(withPods(pod("p", unschedulable))), reason: conditions.ReasonAgentPodRejected, says: "the agent's pod cannot be scheduled"},
		"unschedulable for a moment":       {in: early(awaited(withPods(pod("p", unschedulable))))},
		"image pull backoff":               {in: waiting("ImagePullBackOff"), reason: conditions.ReasonAgentPodFailing, says: "image registry.example/agent:v1 cannot be pulled"},
		"image pull backoff of a sidecar":  {in: awaited(withPods(pod("p", sidecarWaits("ImagePullBackOff")))), reason: conditions.ReasonAgentPodFailing, says: "a container that the cluster has added to the agent's pod does not run"},
		"invalid image name":               {in: waiting("InvalidImageName"), reason: conditions.ReasonAgentPodFailing, says: "cannot be pulled"},
		"failed image pull, for a moment":  {in: early(waiting("ErrImagePull"))},
		"failed image pull, for long":      {in: waiting("ErrImagePull"), reason: conditions.ReasonAgentPodFailing, says: "can reach the registry"},
		"container in CrashLoopBackOff":    {in: early(waiting("CrashLoopBackOff")), reason: conditions.ReasonAgentPodFailing, says: "kubectl logs -n agents -l app=fleet-agent --previous"},
		"container that cannot be created": {in: waiting("CreateContainerConfigError"), reason: conditions.ReasonAgentPodFailing, says: "cannot be started"},
		"init container in CrashLoopBackOff": {in: awaited(withPods(pod("p", func(p *corev1.Pod) {
			waits("CrashLoopBackOff")(p)
			p.Status.InitContainerStatuses, p.Status.ContainerStatuses = p.Status.ContainerStatuses, nil
		}))), reason: conditions.ReasonAgentPodFailing, says: "exits right after its start"},
		"evicted pod": {in: awaited(withPods(pod("p", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }))), reason: conditions.ReasonAgentPodFailing, says: "terminated by its node"},
		"failure in the Deployment's condition": {in: awaited(func(in *supervision.Input) {
			in.Deployment.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "exceeded quota: q,"}}
		}), reason: conditions.ReasonAgentPodRejected, says: "ResourceQuota q"},
		"failure of an older ReplicaSet": {in: awaited(func(in *supervision.Input) {
			withRefusal("exceeded quota: q,")(in)
			none := int32(0)
			in.ReplicaSets[0].Spec.Replicas = &none
		})},
		"terminating pod": {in: awaited(withPods(pod("p", func(p *corev1.Pod) { waits("CrashLoopBackOff")(p); p.DeletionTimestamp = &metav1.Time{} })))},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := supervision.Decide(test.in)
			if got.Reason != test.reason || !strings.Contains(got.Message, test.says) {
				t.Errorf("%s: %q; want %s: …%s…", got.Reason, got.Message, test.reason, test.says)
			}
			if strings.Contains(got.Message, "kubectl") && !strings.Contains(got.Message, "cluster: kubectl") {
				t.Errorf("%q does not say on which cluster the command runs", got.Message)
			}
			for _, changing := range []string{"x2kzt", "10:15", "2026", "10.0.0.1", "used", "try 3"} {
				if strings.Contains(got.Message, changing) {
					t.Errorf("the message changed with the next attempt: %q", got.Message)
				}
			}
		})
	}
}

// If the agent's pod does not run and the settings now give it another image, that image is applied.
func TestCorrectedSetting_IsAppliedToAPodThatDoesNotRun(t *testing.T) {
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
	env := func(variables ...corev1.EnvVar) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) { s.Containers[0].Env = variables }
	}
	from := func(version string) corev1.EnvVar {
		return corev1.EnvVar{Name: "A", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: version, FieldPath: "metadata.namespace"}}}
	}
	secure := func(s *corev1.PodSpec) {
		yes := true
		s.SecurityContext, s.Containers[0].SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: &yes}, &corev1.SecurityContext{Privileged: new(bool)}
	}
	defaulted := func(s *corev1.PodSpec) { // as API servers fill it in
		s.SecurityContext, s.DNSPolicy, s.SchedulerName = &corev1.PodSecurityContext{}, corev1.DNSClusterFirst, "default-scheduler"
	}
	affinity := func(s *corev1.PodSpec) {
		s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{}}}
	}
	memory := func(limit string) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) {
			s.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(limit)}
		}
	}
	tolerations := func(s *corev1.PodSpec) { s.Tolerations = []corev1.Toleration{{Key: "k"}} }
	selector := func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"a": "b"} }
	host := func(s *corev1.PodSpec) { s.HostNetwork = true }
	class := func(s *corev1.PodSpec) { s.PriorityClassName = "c" }
	command := func(s *corev1.PodSpec) { s.Containers[0].Command = []string{"fleetagent", "--debug"} }
	by := func(manager, fields string, modify func(*corev1.PodSpec)) *appsv1.Deployment {
		d := deployment(modify)
		d.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: manager, FieldsV1: metav1.NewFieldsV1(fields)}}
		return d
	}
	inPod := func(fields string) string { return `{"f:spec":{"f:template":{"f:spec":{` + fields + `}}}}` }
	inContainer := func(fields string) string { return inPod(`"f:containers":{"k:{\"name\":\"\"}":{` + fields + `}}`) }
	bundle := func(fields string, modify func(*corev1.PodSpec)) *appsv1.Deployment {
		return by("fleetagent", fields, modify)
	}
	admin := func(modify func(*corev1.PodSpec)) *appsv1.Deployment { return by("kubectl", inPod(""), modify) }
	same, fails := func(*corev1.PodSpec) {}, withPods(pod("p", waits("ImagePullBackOff")))
	tests := map[string]struct {
		is, wanted *appsv1.Deployment
		in         func(*supervision.Input)
		want       supervision.Repair
	}{
		"the same image":                           {deployment(same), deployment(same), fails, supervision.RepairNone},
		"settings are invalid":                     {deployment(same), nil, fails, supervision.RepairNone},
		"another image":                            {deployment(same), deployment(image("registry.example/agent:v2")), fails, supervision.RepairSettings},
		"another image for a refused pod":          {deployment(same), deployment(image("v2")), withRefusal("admission webhook \"w\" denied the request"), supervision.RepairSettings},
		"another image for a pod that is starting": {deployment(same), deployment(image("v2")), withPods(pod("p", waits("ContainerCreating"))), supervision.RepairNone},
		"another image for a running agent":        {deployment(same), deployment(image("v2")), withPods(pod("p", running)), supervision.RepairNone},
		"another policy":                           {deployment(same), deployment(policy(corev1.PullAlways)), fails, supervision.RepairSettings},
		"no policy":                                {deployment(same), deployment(policy("")), fails, supervision.RepairNone},
		"a pull secret":                            {deployment(same), deployment(secrets("s")), fails, supervision.RepairSettings},
		"pull secret removed":                      {bundle(inPod(`"f:imagePullSecrets":{"k:{\"name\":\"s\"}":{}}`), secrets("s")), deployment(same), fails, supervision.RepairSettings},
		"the same pull secrets":                    {deployment(secrets("s", "t")), deployment(secrets("s", "t")), fails, supervision.RepairNone},
		"a security context":                       {deployment(same), deployment(secure), fails, supervision.RepairSettings},
		"security context removed":                 {bundle(inPod(`"f:securityContext":{"f:runAsNonRoot":{}}`), secure), deployment(same), fails, supervision.RepairSettings},
		"fields of the API server":                 {deployment(defaulted), deployment(same), fails, supervision.RepairNone},
		"affinity removed":                         {bundle(inPod(`"f:affinity":{"f:nodeAffinity":{"f:requiredDuringSchedulingIgnoredDuringExecution":{}}}`), affinity), deployment(same), fails, supervision.RepairSettings},
		"another limit":                            {deployment(memory("1Mi")), deployment(memory("1Gi")), fails, supervision.RepairSettings},
		"the same limit, written differently":      {deployment(memory("1Gi")), deployment(memory("1024Mi")), fails, supervision.RepairNone},
		"limit removed":                            {bundle(inContainer(`"f:resources":{"f:limits":{"f:memory":{}}}`), memory("1Mi")), deployment(same), fails, supervision.RepairSettings},
		"a toleration":                             {deployment(same), deployment(tolerations), fails, supervision.RepairSettings},
		"another node selector":                    {deployment(same), deployment(selector), fails, supervision.RepairSettings},
		"host network removed":                     {bundle(inPod(`"f:hostNetwork":{}`), host), deployment(same), fails, supervision.RepairSettings},
		"a priority class":                         {deployment(same), deployment(class), fails, supervision.RepairSettings},
		"another command":                          {deployment(same), deployment(command), fails, supervision.RepairSettings},
		"variable removed":                         {bundle(inContainer(`"f:env":{"k:{\"name\":\"A\"}":{".":{},"f:name":{}}}`), env(corev1.EnvVar{Name: "A"})), deployment(same), fails, supervision.RepairSettings},
		"variable emptied":                         {deployment(env(corev1.EnvVar{Name: "A", Value: "x"})), deployment(env(corev1.EnvVar{Name: "A"})), fails, supervision.RepairSettings},
		"a value instead of a source":              {deployment(env(from("v1"))), deployment(env(corev1.EnvVar{Name: "A"})), fails, supervision.RepairSettings},
		"a source, with the version filled in":     {deployment(env(from("v1"))), deployment(env(from(""))), fails, supervision.RepairNone},
		"pull secret of an admin":                  {admin(secrets("s")), deployment(same), fails, supervision.RepairNone},
		"security context of an admin":             {admin(secure), deployment(same), fails, supervision.RepairNone},
		"affinity of an admin":                     {admin(affinity), deployment(same), fails, supervision.RepairNone},
		"limit of an admin":                        {admin(memory("1Mi")), deployment(same), fails, supervision.RepairNone},
		"toleration of an admin":                   {admin(tolerations), deployment(same), fails, supervision.RepairNone},
		"node selector of an admin":                {admin(selector), deployment(same), fails, supervision.RepairNone},
		"host network of an admin":                 {admin(host), deployment(same), fails, supervision.RepairNone},
		"priority class of an admin":               {admin(class), deployment(same), fails, supervision.RepairNone},
		"variable of an admin":                     {admin(env(corev1.EnvVar{Name: "A"})), deployment(same), fails, supervision.RepairNone},
		"no container":                             {deployment(func(s *corev1.PodSpec) { s.Containers = nil }), deployment(image("v2")), fails, supervision.RepairNone},
		"another image, and no identity":           {deployment(same), deployment(image("v2")), func(in *supervision.Input) { fails(in); in.Delivered = "" }, supervision.RepairIdentity},
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

// What an admin has added stays, also while a setting is corrected.
func TestCorrect_KeepsFieldsOfOtherClients(t *testing.T) {
	live, wanted := awaited().Deployment, awaited().Deployment
	wanted.Spec.Template.Spec.Containers[0].Image = "v2"
	wanted.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "B", ValueFrom: &corev1.EnvVarSource{}}, {Name: "C", Value: "c"}}
	wanted.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: "wanted"}}
	wanted.Spec.Template.Spec.NodeSelector = map[string]string{"os": "linux"}
	wanted.Spec.Template.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}}
	spec := &live.Spec.Template.Spec
	spec.HostAliases, spec.DNSPolicy = []corev1.HostAlias{{IP: "10.0.0.1"}}, corev1.DNSDefault
	spec.Volumes = []corev1.Volume{{Name: "ca"}}
	spec.Tolerations, spec.NodeSelector = []corev1.Toleration{{Key: "admin"}}, map[string]string{"admin": "a"}
	spec.Containers[0].Env = []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "p"}, {Name: "A", Value: "a"}, {Name: "B", Value: "b"}}
	spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "ca"}}
	live.ManagedFields = []metav1.ManagedFieldsEntry{
		{Manager: "fleetagent", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"\"}":{"f:env":{"k:{\"name\":\"A\"}":{}}}}}}}}`)},
		{Manager: "kubectl-set", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:template":{"f:spec":{"f:hostAliases":{}}}}}`)},
	}
	want := spec.DeepCopy()
	want.Containers[0].Image = "v2"
	want.Containers[0].Env = []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "p"}, {Name: "B", ValueFrom: &corev1.EnvVarSource{}}, {Name: "C", Value: "c"}}
	want.Tolerations = []corev1.Toleration{{Key: "admin"}, {Key: "wanted"}}
	want.NodeSelector = map[string]string{"admin": "a", "os": "linux"}
	for first := range 2 {
		if got := supervision.Correct(live, wanted); got != (first == 0) {
			t.Errorf("correction %d: got %v", first, got)
		}
		want.Affinity = live.Spec.Template.Spec.Affinity // an empty one is the same as none
		if diff := cmp.Diff(want, &live.Spec.Template.Spec); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// The message must not depend on the order of lists or on changing texts: otherwise the condition would never settle.
func TestSameProblem_GivesTheSameMessage(t *testing.T) {
	a, b := pod("a", waits("CrashLoopBackOff")), pod("b", waits("ImagePullBackOff"))
	if diff := cmp.Diff(supervision.Decide(awaited(withPods(a, b))), supervision.Decide(awaited(withPods(b, a)))); diff != "" {
		t.Errorf("messages for another order of pods:\n%s", diff)
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
		t.Errorf("messages for another order of ReplicaSets:\n%s", diff)
	}
	in := awaited(withPods(b, a))
	before := fmt.Sprintf("%+v", in)
	supervision.Decide(in)
	if after := fmt.Sprintf("%+v", in); before != after {
		t.Error("the rule changed its input")
	}
}

// Texts from a downstream cluster may contain anything: only object names are repeated.
func TestHostileRefusal_IsNotRepeated(t *testing.T) {
	for _, text := range []string{
		`exceeded quota: <script>alert(1)</script>,`, `admission webhook "x\nReady: True" denied`, `violates PodSecurity "eyJhbGciOi:v1"`,
		"exceeded quota: " + strings.Repeat("a", 5000) + ",", `ValidatingAdmissionPolicy '` + "\x00" + `'`,
	} {
		got := supervision.Decide(awaited(withRefusal(text)))
		if got.Reason != conditions.ReasonAgentPodRejected || len(got.Message) > 700 {
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
		t.Errorf("delays for a new agent (-want +got):\n%s", diff)
	}
	want = []string{"1m0s", "3m0s", "7m0s", "15m0s", "31m0s", "1h3m0s", "2h3m0s", "3h3m0s", "4h3m0s"}
	if diff := cmp.Diff(want, at(true)); diff != "" {
		t.Errorf("delays for a stale agent (-want +got):\n%s", diff)
	}
	if got := supervision.NextLook(1<<20, false); got != supervision.LastInspection {
		t.Errorf("after very many inspections: %s", got)
	}
}

func TestSupervised(t *testing.T) {
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
		"new agent":               {cluster: deployed(func(*fleet.Cluster) {}), want: true},
		"reporting agent":         {cluster: deployed(heard)},
		"stale agent":             {cluster: deployed(heard), stale: true, want: true},
		"agent installed by hand": {cluster: deployed(func(c *fleet.Cluster) { c.Spec.KubeConfigSecret = "" }), stale: true},
		"agent never deployed":    {cluster: deployed(func(c *fleet.Cluster) { c.Status.AgentDeployedGeneration = nil })},
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
		"a webhook that denies":          {`admission webhook "w.example.com" denied the request: no`, conditions.ReasonAdmissionDenied, "w.example.com of the downstream cluster denies an object of the agent: change it, or exempt the agent's namespace. Its answer: kubectl logs -n hub-system deployment/fleet-controller"},
		"a webhook that does not answer": {`Internal error occurred: failed calling webhook "w.example.com": EOF`, conditions.ReasonAdmissionDenied, "does not answer: repair it, or exempt the agent's namespace. The error: kubectl logs -n hub-system deployment/fleet-controller"},
		"a policy":                       {`deployments.apps "fleet-agent" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no`, conditions.ReasonAdmissionDenied, "ValidatingAdmissionPolicy p"},
		"a terminating namespace":        {`secrets "s" is forbidden: unable to create new content in namespace n because it is being terminated`, conditions.ReasonNamespaceTerminating, "kubectl describe namespace agents"},
		"something else":                 {`secrets "s" is forbidden: User "u" cannot create resource`, "", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			reason, message := supervision.Refusal(test.text, "hub-system", "agents")
			if reason != test.reason || !strings.Contains(message, test.says) || (message == "") != (reason == "") {
				t.Errorf("%s: %q", reason, message)
			}
		})
	}
}
