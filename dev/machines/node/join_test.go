package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/dev/machines/workload"
	"github.com/fleet-hub/fleet/dev/plane/args"
	"github.com/fleet-hub/fleet/dev/plane/build"
	"github.com/fleet-hub/fleet/dev/plane/pki"
	"github.com/fleet-hub/fleet/dev/plane/ports"
	"github.com/fleet-hub/fleet/dev/plane/supervise"
	"github.com/fleet-hub/fleet/e2e/framework/await"
)

// patience limits a wait for something that takes a few seconds on an idle machine.
const patience = 2 * time.Minute

// lab is a control plane that accepts nodes.
type lab struct {
	programs, dir string
	processes     *supervise.Client
	ca            pki.Authority
	url           string
	client        kubernetes.Interface
}

// startLab starts etcd, an API server and a controller-manager with the arguments that lab machines use.
func startLab(t *testing.T) *lab {
	t.Helper()
	programs, err := build.Kube(t.Context(), t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	supervisor, err := build.Supervisor(t.Context(), t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{programs: programs, dir: filepath.Join(t.TempDir(), "data")}
	if err := os.Mkdir(l.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	l.processes, err = supervise.Launch(supervise.Options{Binary: supervisor, DataDir: l.dir, Log: filepath.Join(t.TempDir(), "log")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.processes.Close(); err != nil {
			t.Error(err)
		}
	})
	server, controllers := held(t), held(t)
	l.url = "https://" + server.Address()
	l.writeFiles(t)
	l.start(t, "etcd", args.Etcd())
	l.start(t, "kube-apiserver", args.Server{Name: "lab", Dir: l.dir, Port: server.Number(), BootstrapTokens: true}.Args())
	l.until(t, "the API server", func(ctx context.Context) error {
		_, err := l.client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err
	})
	l.start(t, "kube-controller-manager", args.Controllers{Dir: l.dir, Port: controllers.Number(), Nodes: true}.Args())
	return l
}

func held(t *testing.T) *ports.Port {
	t.Helper()
	port, err := ports.Hold()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(port.Release)
	return port
}

// writeFiles writes the certificates and the admin's kubeconfig, and creates the admin's client.
func (l *lab) writeFiles(t *testing.T) {
	t.Helper()
	now := time.Now()
	var err error
	if l.ca, err = pki.NewAuthority("lab", now); err != nil {
		t.Fatal(err)
	}
	serving, servingErr := l.ca.Serving(now)
	accounts, accountsErr := pki.NewAccountKey()
	admin, adminErr := l.ca.Client(now, pki.Client{User: "admin", Groups: []string{"system:masters"}, Lifetime: time.Hour})
	if err := errors.Join(servingErr, accountsErr, adminErr); err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := pki.Access{Name: "lab", URL: l.url, CA: l.ca.Certificate, Client: admin}.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string][]byte{
		pki.FileCA: l.ca.Certificate, pki.FileCAKey: l.ca.Key, pki.FileServing: serving.Certificate, pki.FileServingKey: serving.Key,
		pki.FileAccounts: accounts.Key, pki.FileKubeconfig: kubeconfig,
	} {
		if err := pki.Write(l.dir, file, content); err != nil {
			t.Fatal(err)
		}
	}
	l.client, err = kubernetes.NewForConfig(&rest.Config{Host: l.url, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: l.ca.Certificate, CertData: admin.Certificate, KeyData: admin.Key}})
	if err != nil {
		t.Fatal(err)
	}
}

func (l *lab) start(t *testing.T, program string, arguments []string) *supervise.Process {
	t.Helper()
	p, err := l.processes.Start(supervise.Command{Path: filepath.Join(l.programs, program), Args: arguments,
		Env: []string{"HOME=" + l.dir, "TMPDIR=" + l.dir}, Log: filepath.Join(l.dir, program+".log")})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// until waits for check, and prints the ends of all logs if it fails.
func (l *lab) until(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		logs, _ := filepath.Glob(filepath.Join(l.dir, "*.log"))
		for _, log := range logs {
			t.Logf("%s:\n%s", filepath.Base(log), supervise.Tail(log, 0))
		}
	})
	await.Until(t, what, patience, check)
}

// allowJoining creates what the cluster needs, and writes the bootstrap kubeconfig.
func (l *lab) allowJoining(t *testing.T) {
	t.Helper()
	cluster, token := workload.NewFor(l.client), workload.NewToken(l.ca, "some-uid")
	if err := errors.Join(cluster.EnsureToken(t.Context(), token, time.Now()), cluster.EnsureBindings(t.Context())); err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := pki.Access{Name: "lab", URL: l.url, CA: l.ca.Certificate, Token: token.Bearer()}.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	if err := pki.Write(l.dir, "bootstrap-kubeconfig", kubeconfig); err != nil {
		t.Fatal(err)
	}
}

// nodeReady waits until the Node has the wanted status of condition Ready, and returns it.
func (l *lab) nodeReady(t *testing.T, name string, want corev1.ConditionStatus) *corev1.Node {
	t.Helper()
	var node *corev1.Node
	l.until(t, fmt.Sprintf("Node %s with Ready %s", name, want), func(ctx context.Context) error {
		var err error
		if node, err = l.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == want {
				return nil
			}
		}
		return fmt.Errorf("conditions %v", node.Status.Conditions)
	})
	return node
}

func TestHollowNode_JoinsRunsPodsAndKeepsItsProviderID(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("kubelets run only on Linux")
	}
	l := startLab(t)
	l.allowJoining(t)
	worker := Worker{Name: "worker-1", RootDir: "kubelet", BootstrapKubeconfig: "bootstrap-kubeconfig"}
	process := l.start(t, Program, worker.Args())
	node := l.nodeReady(t, worker.Name, corev1.ConditionTrue)
	if node.Spec.ProviderID != "" {
		t.Errorf("provider ID %s before a provider has set one", node.Spec.ProviderID)
	}

	const id = "lab://default/worker-1"
	l.until(t, "the provider ID", func(ctx context.Context) error {
		node, err := l.client.CoreV1().Nodes().Get(ctx, worker.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		patch, err := Initialize(node, id)
		if err != nil || patch == nil {
			return err
		}
		_, err = l.client.CoreV1().Nodes().Patch(ctx, worker.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err // a conflict with the kubelet: try again
	})
	l.runBoundPod(t, worker.Name)

	// A restart uses the certificate in the root directory: the token is not needed any more.
	if err := errors.Join(process.Signal(9), os.Remove(filepath.Join(l.dir, worker.BootstrapKubeconfig))); err != nil {
		t.Fatal(err)
	}
	<-process.Done()
	if err := l.client.CoreV1().Nodes().Delete(t.Context(), worker.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	l.start(t, Program, worker.Args())
	if again := l.nodeReady(t, worker.Name, corev1.ConditionTrue); again.UID == node.UID {
		t.Error("the Node was not registered again")
	}
}

// runBoundPod runs a pod on the node and deletes it.
func (l *lab) runBoundPod(t *testing.T, node string) {
	t.Helper()
	pods := l.client.CoreV1().Pods(metav1.NamespaceDefault)
	l.until(t, "a pod of the node", func(ctx context.Context) error {
		_, err := pods.Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "bound"},
			Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "example.com/main:1", Command: []string{"fleetagent"}}}},
		}, metav1.CreateOptions{})
		return err // until the namespace has its account
	})
	l.until(t, "the running pod", func(ctx context.Context) error {
		pod, err := pods.Get(ctx, "bound", metav1.GetOptions{})
		if err == nil && pod.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("phase %s", pod.Status.Phase)
		}
		return err
	})
	if err := pods.Delete(t.Context(), "bound", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	l.until(t, "the end of the pod", func(ctx context.Context) error {
		_, err := pods.Get(ctx, "bound", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it still exists: %w", err)
	})
}
