package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/dev/plane"
	"github.com/fleet-hub/fleet/e2e/framework/await"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	tokenrule "github.com/fleet-hub/fleet/internal/rules/token"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// patience is how long a test waits for what takes a moment on an idle machine.
const patience = 2 * time.Minute

// site is one agent's place: a workspace on the hub, a namespace in the cluster east. The hub's part is
// played by the test, by the same rules as the controllers' and with the same rights.
type site struct {
	t         *testing.T
	plane     *plane.Plane
	hub       *foreign.Client // as admin
	hubCore   kubernetes.Interface
	fleet     rest.Interface
	eastCore  kubernetes.Interface
	workspace string
	namespace string // of the agent
	hubNames  clusters.Namespaces
	tlsMode   string // of the agent's configuration
}

func newSite(t *testing.T, name string) *site {
	t.Helper()
	p := control.Plane(t)
	s := &site{
		t: t, plane: p, tlsMode: config.TLSModeStrict, workspace: "ws-" + name, namespace: "agent-" + name,
		hubNames: clusters.Namespaces{System: "sys-" + name, Registration: "reg-" + name},
	}
	var err error
	s.hub, err = foreign.New(p.Hub.Config())
	s.must(err)
	s.hubCore, err = kubernetes.NewForConfig(p.Hub.Config())
	s.must(err)
	s.eastCore, err = kubernetes.NewForConfig(p.Cluster(east).Config())
	s.must(err)
	s.fleet, err = fleetClient(p.Hub.Config())
	s.must(err)
	group := fleet.SchemeGroupVersion.Group
	s.must(s.hub.Apply(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.workspace}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.hubNames.Registration}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: names.BundleDeploymentRole}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{group}, Resources: []string{"bundledeployments"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{group}, Resources: []string{"bundledeployments/status"}, Verbs: []string{"update", "patch"}},
			{APIGroups: []string{""}, Resources: []string{"secrets", "configmaps"}, Verbs: []string{"get"}},
		}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: names.ContentRole}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{group}, Resources: []string{"contents"}, Verbs: []string{"get"}},
		}},
	))
	s.prepareEast()
	return s
}

// prepareEast makes the agent's namespace and account, as the chart does.
func (s *site) prepareEast() {
	s.t.Helper()
	downstream, err := foreign.New(s.plane.Cluster(east).Config())
	s.must(err)
	account := metav1.ObjectMeta{Namespace: s.namespace, Name: names.Agent}
	s.must(downstream.Apply(s.t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}},
		&corev1.ServiceAccount{ObjectMeta: account},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.namespace, Name: names.Agent}},
		},
	))
	s.t.Cleanup(downstream.Close)
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func fleetClient(cfg *rest.Config) (rest.Interface, error) {
	scheme := runtime.NewScheme()
	if err := fleet.AddToScheme(scheme); err != nil {
		return nil, err
	}
	cfg.APIPath, cfg.GroupVersion = "/apis", &fleet.SchemeGroupVersion
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	return rest.RESTClientFor(cfg)
}

// token makes an import token and its account on the hub.
func (s *site) token(name string) (*fleet.ClusterRegistrationToken, protocol.Values) {
	s.t.Helper()
	ctx := s.t.Context()
	token := &fleet.ClusterRegistrationToken{}
	s.must(s.fleet.Post().Namespace(s.workspace).Resource("clusterregistrationtokens").Body(&fleet.ClusterRegistrationToken{
		TypeMeta:   metav1.TypeMeta{APIVersion: fleet.SchemeGroupVersion.String(), Kind: "ClusterRegistrationToken"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}).Do(ctx).Into(token))
	out := tokenrule.Decide(tokenrule.Input{
		Now: time.Now(), Token: token, APIServerURL: s.plane.Hub.URL, APIServerCA: s.plane.Hub.CA, Namespaces: s.hubNames,
	})
	s.must(s.hub.Apply(ctx, out.Children...))
	values := out.Values
	values.Token = s.mint(protocol.Mint{Namespace: s.workspace, Account: names.ImportAccount(token.Name, string(token.UID)), Lifetime: time.Hour})
	return token, values
}

func (s *site) mint(m protocol.Mint) string {
	s.t.Helper()
	seconds := int64(m.Lifetime.Seconds())
	made, err := s.hubCore.CoreV1().ServiceAccounts(m.Namespace).CreateToken(s.t.Context(), m.Account,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	s.must(err)
	return made.Status.Token
}

// deliver writes the bootstrap secret and the configuration into the agent's namespace. The Secret is first: an agent
// that starts in between is to end as before, not to ask with the token of old.
func (s *site) deliver(values protocol.Values) {
	s.t.Helper()
	s.applyEast(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: names.AgentBootstrap},
		Data: protocol.Bootstrap{
			APIServerURL: values.APIServerURL, APIServerCA: []byte(values.APIServerCA), ClusterNamespace: values.ClusterNamespace,
			Token: values.Token, TokenName: values.TokenName, SystemRegistrationNamespace: values.SystemRegistrationNamespace,
		}.Encode(),
	})
	s.configure()
}

// configure writes the agent's configuration.
func (s *site) configure() {
	s.t.Helper()
	configuration, err := config.Agent{ClientID: "client-" + s.namespace, AgentTLSMode: s.tlsMode}.Encode()
	s.must(err)
	s.applyEast(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: names.Agent}, Data: map[string]string{names.ConfigKey: configuration},
	})
}

func (s *site) applyEast(object runtime.Object) {
	s.t.Helper()
	downstream, err := foreign.New(s.plane.Cluster(east).Config())
	s.must(err)
	defer downstream.Close()
	s.must(downstream.Apply(s.t.Context(), object))
}

// answer waits for the first request with this token that is not granted yet, and grants it.
func (s *site) answer(token *fleet.ClusterRegistrationToken) {
	s.t.Helper()
	var request *fleet.ClusterRegistration
	s.eventually("a request", func(context.Context) error {
		for _, found := range s.requests() {
			if !found.Status.Granted && found.Labels[fleet.LabelRegistrationToken] == token.Name {
				request = &found
				return nil
			}
		}
		return errors.New("there is none")
	})
	cluster := s.cluster(request.Spec.ClientID)
	in := grant.Input{
		Now: time.Now(), Request: request, Clusters: []*fleet.Cluster{cluster}, NamedToken: token, Namespaces: s.hubNames,
	}
	out := grant.Decide(in)
	rights := slices.Concat([]runtime.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: cluster.Status.Namespace}}}, out.Children, out.CredentialAccess)
	s.must(s.hub.Apply(s.t.Context(), rights...))
	var err error
	in.Account, err = s.hubCore.CoreV1().ServiceAccounts(cluster.Status.Namespace).Get(s.t.Context(), names.RequestAccount(request.Name, string(request.UID)), metav1.GetOptions{})
	s.must(err)
	in.RightsExist, in.AccessExists = true, true
	out = grant.Decide(in)
	out.Mint.Lifetime = time.Hour
	out.Credential.Token = s.mint(*out.Mint)
	s.must(s.hub.Apply(s.t.Context(), grant.CredentialSecret(request, s.hubNames.Registration, out.Credential)))
	request.Status.Granted, request.Status.ClusterName = true, cluster.Name
	s.must(s.fleet.Put().Namespace(s.workspace).Resource("clusterregistrations").Name(request.Name).SubResource("status").Body(request).Do(s.t.Context()).Error())
}

// cluster is the workspace's Cluster, made if there is none.
func (s *site) cluster(clientID string) *fleet.Cluster {
	s.t.Helper()
	ctx := s.t.Context()
	cluster := &fleet.Cluster{}
	err := s.fleet.Get().Namespace(s.workspace).Resource("clusters").Name("a").Do(ctx).Into(cluster)
	if err == nil {
		return cluster
	}
	if !apierrors.IsNotFound(err) {
		s.t.Fatal(err)
	}
	s.must(s.fleet.Post().Namespace(s.workspace).Resource("clusters").Body(&fleet.Cluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: fleet.SchemeGroupVersion.String(), Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: fleet.ClusterSpec{ClientID: clientID},
	}).Do(ctx).Into(cluster))
	cluster.Status.Namespace = names.ClusterNamespace(s.workspace, "a")
	s.must(s.fleet.Put().Namespace(s.workspace).Resource("clusters").Name("a").SubResource("status").Body(cluster).Do(ctx).Into(cluster))
	return cluster
}

func (s *site) requests() []fleet.ClusterRegistration {
	s.t.Helper()
	list := &fleet.ClusterRegistrationList{}
	s.must(s.fleet.Get().Namespace(s.workspace).Resource("clusterregistrations").Do(s.t.Context()).Into(list))
	return list.Items
}

// expectRequests fails unless this many ClusterRegistrations were made so far.
func (s *site) expectRequests(want int) {
	s.t.Helper()
	var got []string
	for _, request := range s.requests() {
		got = append(got, request.Name)
	}
	if len(got) != want {
		s.t.Errorf("the agent made the requests %v, want %d", got, want)
	}
}

// heartbeat waits for one that was sent not before then, and returns the Cluster.
func (s *site) heartbeat(then time.Time) *fleet.Cluster {
	s.t.Helper()
	cluster := &fleet.Cluster{}
	s.eventually("a heartbeat", func(ctx context.Context) error {
		if err := s.fleet.Get().Namespace(s.workspace).Resource("clusters").Name("a").Do(ctx).Into(cluster); err != nil {
			return err
		}
		if seen := cluster.Status.Agent.LastSeen; seen.Time.Before(then.Truncate(time.Second)) {
			return fmt.Errorf("the last was at %s, want one since %s", seen, then)
		}
		return nil
	})
	if got := cluster.Status.Agent.Namespace; got != s.namespace {
		s.t.Errorf("the heartbeat names namespace %q, want %q", got, s.namespace)
	}
	return cluster
}

// startPod starts a replica of the agent, with these variables in its environment beside the usual ones.
func (s *site) startPod(name string, env ...corev1.EnvVar) {
	s.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			ServiceAccountName: names.Agent,
			Containers: []corev1.Container{{
				Name: names.Agent, Image: "fleet-agent", Command: []string{binary}, Args: []string{"--debug"},
				Env: []corev1.EnvVar{
					{Name: "NAMESPACE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"}}},
					{Name: "CHECKIN_INTERVAL", Value: "1s"},
					{Name: "CATTLE_ELECTION_LEASE_DURATION", Value: "30s"},
					{Name: "CATTLE_ELECTION_RETRY_PERIOD", Value: "1s"},
					{Name: "CATTLE_ELECTION_RENEW_DEADLINE", Value: "25s"},
				},
			}},
		},
	}
	container := &pod.Spec.Containers[0]
	container.Env = append(container.Env, env...)
	_, err := s.eastCore.CoreV1().Pods(s.namespace).Create(s.t.Context(), pod, metav1.CreateOptions{})
	s.must(err)
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.t.Logf("log of pod %s:\n%s", name, s.log(name))
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), patience)
		defer cancel()
		if err := s.eastCore.CoreV1().Pods(s.namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			s.t.Error(err)
		}
	})
}

func (s *site) log(pod string) string {
	log, err := s.plane.PodLog(east, s.namespace, pod)
	if err != nil {
		return err.Error()
	}
	return string(log)
}

// expectLog waits until the pod has written this text so many times.
func (s *site) expectLog(pod, text string, times int) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("%q in the log of %s", text, pod), func(context.Context) error {
		if got := strings.Count(s.log(pod), text); got < times {
			return fmt.Errorf("it is there %d times, want %d", got, times)
		}
		return nil
	})
}

// endPod deletes a pod and waits until its process has ended.
func (s *site) endPod(name string) {
	s.t.Helper()
	pods := s.eastCore.CoreV1().Pods(s.namespace)
	s.must(pods.Delete(s.t.Context(), name, metav1.DeleteOptions{}))
	s.eventually("pod "+name+" to be gone", func(ctx context.Context) error {
		_, err := pods.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there (%w)", err)
	})
}

// restarts is how often the pod's process was started anew.
func (s *site) restarts(pod string) int32 {
	s.t.Helper()
	found, err := s.eastCore.CoreV1().Pods(s.namespace).Get(s.t.Context(), pod, metav1.GetOptions{})
	s.must(err)
	if len(found.Status.ContainerStatuses) == 0 {
		return 0
	}
	return found.Status.ContainerStatuses[0].RestartCount
}

func (s *site) expectReady(pod string, want bool) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("pod %s ready: %t", pod, want), func(ctx context.Context) error {
		found, err := s.eastCore.CoreV1().Pods(s.namespace).Get(ctx, pod, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range found.Status.Conditions {
			if condition.Type == corev1.PodReady && (condition.Status == corev1.ConditionTrue) == want {
				return nil
			}
		}
		return errors.New("it is not so")
	})
}

func (s *site) secret(name string) (*corev1.Secret, error) {
	return s.eastCore.CoreV1().Secrets(s.namespace).Get(s.t.Context(), name, metav1.GetOptions{})
}

func (s *site) expectMissing(name string) {
	s.t.Helper()
	s.eventually("Secret "+name+" to be gone", func(context.Context) error {
		_, err := s.secret(name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there (%w)", err)
	})
}

// eventually asks until check says nil; it fails the test with what check said last.
func (s *site) eventually(what string, check func(ctx context.Context) error) {
	s.t.Helper()
	await.Until(s.t, what, patience, check)
}
