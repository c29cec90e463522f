package requests

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// line returns a line of an audit log.
func line(who, decision, role, verb, object string) string {
	return fmt.Sprintf(`{"stage":"ResponseComplete","verb":%q,"user":{"username":%q},"objectRef":%s,"annotations":{`+
		`"authorization.k8s.io/decision":%q,"authorization.k8s.io/reason":"RBAC: allowed by ClusterRoleBinding \"b\" of ClusterRole \"%s\" to x"}}`+"\n",
		verb, who, object, decision, role)
}

func TestRecord_KeepsTheControllersAllowedRequests(t *testing.T) {
	const secret = `{"resource":"secrets","namespace":"fleet-default","name":"s","apiVersion":"v1"}`
	const lease = `{"resource":"leases","namespace":"cattle-fleet-system","name":"l","apiGroup":"coordination.k8s.io"}`
	const status = `{"resource":"clusters","subresource":"status","namespace":"n","name":"c","apiGroup":"fleet.cattle.io"}`
	tests := map[string]struct {
		log  string
		want []Request
	}{
		"request of the controllers: is recorded without the name": {
			line(user, "allow", account, "get", secret), []Request{{Verb: "get", Resource: "secrets"}},
		},
		"resource with few objects: is recorded with the name and the own namespace": {
			line(user, "allow", account, "update", lease),
			[]Request{{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Name: "l", Own: true}},
		},
		"subresource: is part of the resource": {
			line(user, "allow", account, "patch", status), []Request{{Verb: "patch", Group: "fleet.cattle.io", Resource: "clusters/status"}},
		},
		"same request twice: is recorded once": {
			line(user, "allow", account, "get", secret) + line(user, "allow", account, "get", secret), []Request{{Verb: "get", Resource: "secrets"}},
		},
		"request of another account: is left out": {log: line(user+"-bootstrap", "allow", account, "get", secret)},
		"refused request: is left out":            {log: line(user, "forbid", account, "get", secret)},
		"request allowed by a role of every account: is left out": {
			log: line(user, "allow", "system:basic-user", "create", `{"resource":"selfsubjectreviews","apiGroup":"authentication.k8s.io"}`),
		},
		"request without a resource: is left out": {log: `{"verb":"get","user":{"username":"` + user + `"}}` + "\n"},
		"incomplete line: is left out":            {log: `{"verb":"get","user":{"username":"` + user},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			log := filepath.Join(folder, "audit.log")
			if err := os.WriteFile(log, []byte(test.log), 0o600); err != nil {
				t.Fatal(err)
			}
			for range 2 { // two planes of one package
				if err := Record(folder, log); err != nil {
					t.Fatal(err)
				}
			}
			got, err := Read(folder)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("recorded (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRecordAgain_ReplacesTheFileOfThePackage(t *testing.T) {
	folder := t.TempDir()
	log := filepath.Join(folder, "audit.log")
	if err := os.WriteFile(log, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	own, err := ownFile(folder)
	if err != nil {
		t.Fatal(err)
	}
	name := own[:len(own)-len(fmt.Sprintf(".%d.json", os.Getpid()))]
	old, other := name+".1.json", name+"%2Fbelow.1.json"
	for _, path := range []string{old, other} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := Record(folder, log); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{other, own}, left); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestReadOfADeletedPackage_SkipsItsRequests(t *testing.T) {
	folder := t.TempDir()
	for where, request := range map[string]Request{
		t.TempDir():                             {Verb: "get", Resource: "secrets"},
		filepath.Join(t.TempDir(), "gone.json"): {Verb: "list", Resource: "secrets"},
	} {
		if err := add(filepath.Join(folder, url.PathEscape(where)+".7.json"), map[Request]bool{request: true}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Read(folder)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Request{{Verb: "get", Resource: "secrets"}}, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestRecordWithoutLog_WritesNothing(t *testing.T) {
	if err := Record(t.TempDir(), filepath.Join(t.TempDir(), "none")); err != nil {
		t.Error(err)
	}
}

func TestRecordInvalidLog_Fails(t *testing.T) {
	log := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(log, []byte("not JSON "+user+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Record(t.TempDir(), log); err == nil {
		t.Error("want an error")
	}
}
