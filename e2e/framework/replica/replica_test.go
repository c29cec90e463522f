package replica

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/fleet-hub/fleet/dev/plane/pki"
)

// patience limits a wait for something that takes a second or two.
const patience = 2 * time.Minute

func TestMain(m *testing.M) {
	if code, played := Play(); played {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

func start(t *testing.T, o Options) *Replica {
	t.Helper()
	o.Folder = t.TempDir()
	r, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Kill)
	return r
}

func await(t *testing.T, what string, event <-chan struct{}) {
	t.Helper()
	select {
	case <-event:
	case <-time.After(patience):
		t.Fatalf("%s did not happen in time", what)
	}
}

// silent returns the kubeconfig of a hub that accepts connections and never answers. asked is closed at the first
// connection.
func silent(t *testing.T) (kubeconfig string, asked <-chan struct{}) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	first := make(chan struct{})
	go func() {
		if connection, err := listener.Accept(); err == nil {
			defer connection.Close()
			close(first)
			<-t.Context().Done()
		}
	}()
	content, err := pki.Access{Name: "hub", URL: fmt.Sprintf("https://%s", listener.Addr()), Token: "nobody's"}.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig, first
}

func TestReplicaWithWrongArguments_ExitsWithCode(t *testing.T) {
	r := start(t, Options{Name: "one/two", Args: []string{"--no-such-flag"}})
	await(t, "its end", r.Ended())
	if code := r.ExitCode(); code != 1 {
		t.Errorf("exit code %d", code)
	}
	if want := "fleetcontroller: unknown flag: --no-such-flag\n"; !strings.HasSuffix(r.Log(), want) {
		t.Errorf("the log is %q", r.Log())
	}
	r.Stop() // has no effect after the end
	r.Kill()
}

func TestReplica_CanBeFrozenAndKilled(t *testing.T) {
	kubeconfig, asked := silent(t)
	r := start(t, Options{Name: "one", Kubeconfig: kubeconfig})
	await(t, "its first question", asked)
	if err := r.Freeze(); err != nil {
		t.Fatal(err)
	}
	r.Stop() // a frozen process cannot handle it
	if err := r.Thaw(); err != nil {
		t.Fatal(err)
	}
	await(t, "its end", r.Ended())
	second := start(t, Options{Name: "two", Kubeconfig: kubeconfig})
	second.Kill()
	await(t, "the other one's", second.Ended())
	if code := second.ExitCode(); code != -1 {
		t.Errorf("a killed replica has exit code %d", code)
	}
	if err := second.Freeze(); err == nil {
		t.Error("freezing a dead replica: want an error")
	}
}

func TestPlayInTheTestProcess_DoesNothing(t *testing.T) {
	if code, played := Play(); played || code != 0 {
		t.Errorf("the test process ran as a replica, code %d", code)
	}
}

func TestEnvironment_HasElectionTimes(t *testing.T) {
	const common = "KUBECONFIG=k NAMESPACE=cattle-fleet-system POD_NAME=n "
	const ports = " FLEET_HEALTHPROBE_BIND_ADDRESS=127.0.0.1:0 FLEET_METRICS_BIND_ADDRESS=127.0.0.1:0"
	tests := map[string]struct {
		options Options
		want    string
	}{
		"default: long leases": {
			Options{}, common + "CATTLE_ELECTION_LEASE_DURATION=5m0s CATTLE_ELECTION_RENEW_DEADLINE=4m0s CATTLE_ELECTION_RETRY_PERIOD=2s" + ports,
		},
		"additional variables come last": {
			Options{Election: Election{2 * time.Second, 1500 * time.Millisecond, time.Second}, Env: []string{"A=b"}},
			common + "CATTLE_ELECTION_LEASE_DURATION=2s CATTLE_ELECTION_RENEW_DEADLINE=1.5s CATTLE_ELECTION_RETRY_PERIOD=1s" + ports + " A=b",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.options.Name, test.options.Kubeconfig = "n", "k"
			if diff := cmp.Diff(test.want, strings.Join(test.options.environment(), " ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func lease(name, holder string) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "cattle-fleet-system", Name: name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder},
	}
}

func TestBury_ReleasesOnlyItsLeases(t *testing.T) {
	hub := fake.NewClientset(lease("first", "one_7a73"), lease("second", "one_7a73"), lease("third", "one-more_7a73"), lease("fourth", ""),
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "cattle-fleet-system", Name: "nobody's"}})
	if err := (&Replica{Name: "one"}).Bury(t.Context(), hub); err != nil {
		t.Fatal(err)
	}
	got, err := Holders(t.Context(), hub)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"first": "", "second": "", "third": "one-more_7a73", "fourth": ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
