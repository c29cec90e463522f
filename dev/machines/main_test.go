package machines_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fleet-hub/fleet/dev/machines"
	"github.com/fleet-hub/fleet/dev/machines/api"
	"github.com/fleet-hub/fleet/dev/machines/host"
	"github.com/fleet-hub/fleet/dev/machines/host/programs"
	"github.com/fleet-hub/fleet/dev/machines/provider"
	"github.com/fleet-hub/fleet/dev/plane"
	"github.com/fleet-hub/fleet/e2e/framework/await"
)

// patience limits a wait for something that takes seconds on an idle machine.
const patience = 4 * time.Minute

var control = plane.Share(plane.Options{Audit: true})

// TestMain also runs the provider and the machine host: the tests start them with the test's own executable.
func TestMain(m *testing.M) {
	if code, found := provider.Run(os.Args, os.Stderr); found {
		os.Exit(code)
	}
	if code, found := programs.Run(os.Args); found {
		os.Exit(code)
	}
	code := control.Main(m)
	_ = started.close() // the processes end with this one in any case
	os.Exit(code)
}

// rig is one management cluster with core, machine host and provider for all tests.
type rig struct {
	core     *plane.CAPI
	host     *host.Child
	provider *machines.Provider
	kube     kubernetes.Interface
	dynamic  dynamic.Interface
	dir      string
}

var started lazy

type lazy struct {
	mu  sync.Mutex
	rig *rig
}

func (l *lazy) close() error {
	if l.rig == nil {
		return nil
	}
	return errors.Join(l.rig.provider.Close(), l.rig.host.Close(), os.RemoveAll(l.rig.dir))
}

func newRig(t *testing.T) *rig {
	t.Helper()
	started.mu.Lock()
	defer started.mu.Unlock()
	if started.rig != nil {
		return started.rig
	}
	r, err := start(control.Plane(t))
	if err != nil {
		t.Fatal(err)
	}
	started.rig = r
	return r
}

func start(p *plane.Plane) (*rig, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // builds may be necessary
	defer cancel()
	r := &rig{}
	var err error
	if r.core, err = p.CAPI(ctx); err != nil {
		return nil, err
	}
	if r.dir, err = os.MkdirTemp("", "mp"); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	for _, name := range []string{provider.Program, programs.Host} {
		if err := os.Symlink(self, filepath.Join(r.dir, name)); err != nil {
			return nil, err
		}
	}
	r.host, err = host.Start(ctx, host.StartOptions{
		Dir: filepath.Join(r.dir, "host"), Executable: filepath.Join(r.dir, programs.Host), Log: filepath.Join(p.LogDir, "machine-host.log"),
	})
	if err != nil {
		return nil, err
	}
	r.provider, err = machines.Start(ctx, machines.Options{
		Config: p.Hub.Config(), Socket: r.host.Socket, Executable: filepath.Join(r.dir, provider.Program), Log: filepath.Join(p.LogDir, "machine-provider.log"),
	})
	if err != nil {
		return nil, errors.Join(err, r.host.Close())
	}
	if r.kube, err = kubernetes.NewForConfig(p.Hub.Config()); err != nil {
		return nil, err
	}
	r.dynamic, err = dynamic.NewForConfig(p.Hub.Config())
	return r, err
}

func (r *rig) resource(object *unstructured.Unstructured) dynamic.ResourceInterface {
	kind, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	return r.dynamic.Resource(kind).Namespace(object.GetNamespace())
}

// create creates typed objects of the core or of the provider.
func (r *rig) create(t *testing.T, objects ...runtime.Object) {
	t.Helper()
	for _, object := range objects {
		content := encode(t, object)
		if _, err := r.resource(content).Create(t.Context(), content, metav1.CreateOptions{}); err != nil {
			t.Fatalf("creating %s %s: %v", content.GetKind(), content.GetName(), err)
		}
	}
}

func encode(t *testing.T, object runtime.Object) *unstructured.Unstructured {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clusterv1.AddToScheme(scheme), api.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	kinds, _, err := scheme.ObjectKinds(object)
	if err != nil {
		t.Fatal(err)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		t.Fatal(err)
	}
	encoded := &unstructured.Unstructured{Object: content}
	encoded.SetGroupVersionKind(kinds[0])
	return encoded
}

// get reads into a typed object with namespace and name.
func (r *rig) get(ctx context.Context, t *testing.T, into interface {
	runtime.Object
	metav1.Object
}) error {
	t.Helper()
	wanted := encode(t, into)
	found, err := r.resource(wanted).Get(ctx, wanted.GetName(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, into)
}

func (r *rig) delete(t *testing.T, object runtime.Object) {
	t.Helper()
	wanted := encode(t, object)
	if err := r.resource(wanted).Delete(t.Context(), wanted.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, check func(ctx context.Context) error) {
	t.Helper()
	await.Until(t, what, patience, check)
}

// machineIDs returns the IDs of the machines at the host.
func (r *rig) machineIDs(ctx context.Context) ([]string, error) {
	all, err := r.host.Machines(ctx)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, machine := range all {
		ids = append(ids, machine.ID)
	}
	slices.Sort(ids)
	return ids, nil
}

func notYet(what string, got any) error { return fmt.Errorf("%s: %v", what, got) }
