package plane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/fleet-hub/fleet/dev/plane/podrunner"
	"github.com/fleet-hub/fleet/e2e/framework/await"
)

// patience limits a wait for something that takes about a second on an idle machine.
const patience = 60 * time.Second

// eventually calls check until it returns nil, or fails the test with the last error.
func eventually(t *testing.T, what string, check func(ctx context.Context) error) {
	t.Helper()
	await.Until(t, what, patience, check)
}

func clientFor(t *testing.T, c *Cluster) kubernetes.Interface {
	t.Helper()
	return clientOf(t, c.Config())
}

func clientOf(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// namespaceFor creates a namespace, waits for its ServiceAccount, and deletes the namespace after the test.
func namespaceFor(t *testing.T, client kubernetes.Interface) string {
	t.Helper()
	made, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.CoreV1().Namespaces().Delete(context.Background(), made.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	eventually(t, "the namespace's account", func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts(made.Name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	return made.Name
}

func TestEveryCluster_IsReadyAndTrustsOnlyItself(t *testing.T) {
	p := control.Plane(t)
	for _, c := range p.permanent() {
		config, err := clientcmd.RESTConfigFromKubeConfig(c.Kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		onDisk, err := os.ReadFile(c.KubeconfigPath)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(c.Kubeconfig), string(onDisk)); diff != "" {
			t.Errorf("%s: the file differs from the field (-field +file):\n%s", c.Name, diff)
		}
		client := clientOf(t, config)
		if _, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(t.Context()); err != nil {
			t.Errorf("%s: /readyz: %v", c.Name, err)
		}
		version, err := client.Discovery().ServerVersion()
		if err != nil || version.GitVersion != "v1.36.3" {
			t.Errorf("%s: version %v, %v", c.Name, version, err)
		}
	}
	stranger := p.Hub.Config()
	stranger.CAData = p.Cluster("east").CA
	if _, err := clientOf(t, stranger).Discovery().ServerVersion(); err == nil {
		t.Error("want the CA of east not to verify the hub")
	}
	stranger = p.Hub.Config()
	stranger.BearerToken = p.Cluster("east").Config().BearerToken
	if _, err := clientOf(t, stranger).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("want the hub to reject the admin token of east, got %v", err)
	}
}

func TestBeforeControllers_RunsForEachCluster(t *testing.T) {
	for _, c := range control.Plane(t).permanent() {
		mark, err := clientFor(t, c).CoreV1().ConfigMaps(metav1.NamespaceDefault).Get(t.Context(), "hook", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]string{"accounts": "0", "cluster": c.Name}, mark.Data); diff != "" {
			t.Errorf("what the hook saw (-want +got):\n%s", diff)
		}
	}
}

func TestClusters_DoNotSeeEachOthersObjects(t *testing.T) {
	p := control.Plane(t)
	hub := clientFor(t, p.Hub)
	name := namespaceFor(t, hub)
	_, err := clientFor(t, p.Cluster("east")).CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("east has a namespace of the hub: %v", err)
	}
	uid := func(client kubernetes.Interface) string {
		system, err := client.CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceSystem, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return string(system.UID)
	}
	if uid(hub) == uid(clientFor(t, p.Cluster("east"))) {
		t.Error("both clusters have the same kube-system")
	}
}

func TestDeletedNamespace_IsRemoved(t *testing.T) {
	client := clientFor(t, control.Plane(t).Hub)
	name := namespaceFor(t, client)
	if err := client.CoreV1().Namespaces().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "end of the namespace", func(ctx context.Context) error {
		_, err := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("still exists: %s", fmt.Sprint(err))
	})
}

func TestServiceAccount_HasOnlyTheRightsOfItsRole(t *testing.T) {
	c := control.Plane(t).Hub
	client := clientFor(t, c)
	namespace := namespaceFor(t, client)
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := c.Config()
	config.BearerToken = token.Status.Token
	account := clientOf(t, config)
	if _, err := account.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Fatalf("without a role: %v", err)
	}
	allow(t.Context(), t, client, namespace)
	eventually(t, "the role's effect", func(ctx context.Context) error {
		_, err := account.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{})
		return err
	})
	if _, err := account.CoreV1().Secrets(namespace).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("listing Secrets, which the role does not allow: %v", err)
	}
}

type fataler interface{ Fatal(args ...any) }

// allow gives the namespace's default ServiceAccount all rights on its ConfigMaps.
func allow(ctx context.Context, t fataler, client kubernetes.Interface, namespace string) {
	meta := metav1.ObjectMeta{Name: "configmaps"}
	_, err := client.RbacV1().Roles(namespace).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"*"}},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: meta,
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "default", Namespace: namespace}},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func TestTokenSecret_GetsAToken(t *testing.T) {
	client := clientFor(t, control.Plane(t).Hub)
	namespace := namespaceFor(t, client)
	_, err := client.CoreV1().Secrets(namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "token", Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}},
		Type:       corev1.SecretTypeServiceAccountToken,
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "token in the Secret", func(ctx context.Context) error {
		secret, err := client.CoreV1().Secrets(namespace).Get(ctx, "token", metav1.GetOptions{})
		if err == nil && len(secret.Data[corev1.ServiceAccountTokenKey]) == 0 {
			return errors.New("no token yet")
		}
		return err
	})
}

func TestDeploymentWithUnknownImage_BecomesReady(t *testing.T) {
	client := clientFor(t, control.Plane(t).Cluster("east"))
	namespace := namespaceFor(t, client)
	deployment := deploymentOf("web", 3, corev1.Container{Name: "web", Image: "example.com/web:1"})
	if _, err := client.AppsV1().Deployments(namespace).Create(t.Context(), deployment, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "ready Deployment", func(ctx context.Context) error {
		got, err := client.AppsV1().Deployments(namespace).Get(ctx, "web", metav1.GetOptions{})
		if err == nil && (got.Status.ReadyReplicas != 3 || got.Status.AvailableReplicas != 3) {
			return fmt.Errorf("status %+v", got.Status)
		}
		return err
	})
	pods, err := client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods.Items {
		if pod.Spec.NodeName != "" || pod.Status.Phase != corev1.PodRunning || pod.Status.PodIP == "" {
			t.Errorf("pod %s: node %q, phase %s, address %q", pod.Name, pod.Spec.NodeName, pod.Status.Phase, pod.Status.PodIP)
		}
	}
}

func deploymentOf(name string, replicas int32, c corev1.Container) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{c}}},
		},
	}
}

func TestJob_Completes(t *testing.T) {
	client := clientFor(t, control.Plane(t).Hub)
	namespace := namespaceFor(t, client)
	_, err := client.BatchV1().Jobs(namespace).Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "once"},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "once", Image: "example.com/once:1"}},
		}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "end of the Job", func(ctx context.Context) error {
		job, err := client.BatchV1().Jobs(namespace).Get(ctx, "once", metav1.GetOptions{})
		if err == nil && job.Status.Succeeded != 1 {
			return fmt.Errorf("status %+v", job.Status)
		}
		return err
	})
}

func TestAuditLog_HasEveryRequest(t *testing.T) {
	c := control.Plane(t).Hub
	client := clientFor(t, c)
	namespace := namespaceFor(t, client)
	permit(t, client, namespace)
	type event struct {
		Verb      string
		ObjectRef struct{ Resource, Namespace, Name string }
		User      struct{ Username string }
	}
	want := event{Verb: "create"}
	want.ObjectRef.Resource, want.ObjectRef.Namespace, want.ObjectRef.Name, want.User.Username = "configmaps", namespace, "permit", "admin"
	eventually(t, "the request in the log", func(context.Context) error {
		log, err := os.ReadFile(c.AuditLog)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(log)) {
			var got event
			if err := json.Unmarshal([]byte(line), &got); err != nil {
				return err // the line may be incomplete yet
			}
			if got == want {
				return nil
			}
		}
		return fmt.Errorf("the log has no %+v", want)
	})
}

func TestPausedCluster_RefusesConnectionsAndKeepsItsData(t *testing.T) {
	c := control.Plane(t).Cluster("east")
	client := clientFor(t, c)
	namespace := namespaceFor(t, client)
	if err := c.Pause(); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Discovery().ServerVersion(); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("reading from the paused cluster: %v", err)
	}
	if runtime.GOOS == "linux" { // only Linux can hold ports
		if other, err := net.Listen("tcp", strings.TrimPrefix(c.URL, "https://")); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("another listener got the address: %v, %v", other, err)
		}
	}
	if err := c.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{}); err != nil {
		t.Errorf("reading an object from before the pause: %v", err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "after"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/c:1"}}}}
	if _, err := client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "pod made after the pause", func(ctx context.Context) error {
		got, err := client.CoreV1().Pods(namespace).Get(ctx, "after", metav1.GetOptions{})
		if err == nil && got.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("phase %s", got.Status.Phase)
		}
		return err
	})
}

func TestRestore_BringsBackTheStateOfTheSnapshot(t *testing.T) {
	p := control.Plane(t)
	c := p.Cluster("east")
	client := clientFor(t, c)
	before := namespaceFor(t, client)
	if err := p.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := namespaceFor(t, client)
	then, err := client.CoreV1().Namespaces().Get(t.Context(), after, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Namespaces().Get(t.Context(), before, metav1.GetOptions{}); err != nil {
		t.Errorf("reading an object from before the snapshot: %v", err)
	}
	if _, err := client.CoreV1().Namespaces().Get(t.Context(), after, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("reading an object from after the snapshot: %v", err)
	}
	list, err := client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// The revision is close to that of the snapshot, because the cluster has written again.
	t.Logf("revision %s at the snapshot, %s now", then.ResourceVersion, list.ResourceVersion)
	namespaceFor(t, client) // needs working controllers
}

func TestHoldControllers_StopsThem(t *testing.T) {
	c := control.Plane(t).Hub
	client := clientFor(t, c)
	if err := c.HoldControllers(true); err != nil {
		t.Fatal(err)
	}
	made, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "held-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().ServiceAccounts(made.Name).Get(t.Context(), "default", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("want no ServiceAccount while the controllers are stopped, got %v", err)
	}
	if err := c.HoldControllers(false); err != nil {
		t.Fatal(err)
	}
	eventually(t, "account of the namespace", func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts(made.Name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

func TestUnknownCluster_IsReported(t *testing.T) {
	p := control.Plane(t)
	if c := p.Cluster("nowhere"); c != nil {
		t.Errorf("got %s", c.Name)
	}
	if err := p.KillPod(t.Context(), "nowhere", "n", "p"); !errors.Is(err, ErrNoCluster) {
		t.Errorf("killing a pod of an unknown cluster: %v", err)
	}
	if _, err := p.PodLog("nowhere", "n", "p"); !errors.Is(err, ErrNoCluster) {
		t.Errorf("reading a log of an unknown cluster: %v", err)
	}
	if _, err := p.PodPIDs("nowhere", "n", "p"); !errors.Is(err, ErrNoCluster) {
		t.Errorf("listing the processes of an unknown cluster: %v", err)
	}
	if pids, err := p.PodPIDs(HubName, "n", "p"); len(pids) != 0 || err != nil {
		t.Errorf("listing the processes of an unknown pod: %v, %v", pids, err)
	}
	if err := p.KillPod(t.Context(), HubName, "n", "p"); !errors.Is(err, podrunner.ErrNoProcess) {
		t.Errorf("killing an unknown pod: %v", err)
	}
}

func TestPlainHTTP_IsRejected(t *testing.T) {
	c := control.Plane(t).Hub
	response, err := http.Get(strings.Replace(c.URL, "https", "http", 1))
	if err != nil {
		return // a refused connection is accepted too
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusBadRequest {
		t.Errorf("plain HTTP got %s %s %v", response.Status, body, err)
	}
}
