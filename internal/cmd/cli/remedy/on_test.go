package remedy_test

import (
	"testing"

	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
)

func TestOn(t *testing.T) {
	hub := remedy.Target{Kubeconfig: "my config", Context: "hub"}
	for name, test := range map[string]struct {
		target     remedy.Target
		line, want string
	}{
		"without flags: unchanged": {remedy.Target{}, "kubectl get pods", "kubectl get pods"},
		"kubectl":                  {hub, "kubectl get pods", "kubectl --kubeconfig 'my config' --context hub get pods"},
		"fleet":                    {remedy.Target{Context: "hub"}, "fleet token revoke a", "fleet --context hub token revoke a"},
		"helm":                     {hub, "helm upgrade a b", "helm --kubeconfig 'my config' --kube-context hub upgrade a b"},
		"another context is kept":  {hub, "kubectl --context west get pods", "kubectl --kubeconfig 'my config' --context west get pods"},
		"pipeline": {
			remedy.Target{Context: "hub"}, "kubectl create a -o yaml | kubectl apply -f - && base64 -d > f && helm list",
			"kubectl --context hub create a -o yaml | kubectl --context hub apply -f - && base64 -d > f && helm --kube-context hub list",
		},
		"operators in quotes": {remedy.Target{Context: "hub"}, `kubectl get 'a | kubectl b && it'\''s' c`, `kubectl --context hub get 'a | kubectl b && it'\''s' c`},
		"command in a sentence": {
			remedy.Target{Context: "hub"}, "to leave the hub's workspace: helm uninstall a && kubectl delete namespace 'a: kubectl b', then run: fleet join",
			"to leave the hub's workspace: helm --kube-context hub uninstall a && kubectl --context hub delete namespace 'a: kubectl b', then run: fleet --context hub join",
		},
		"help: unchanged":        {hub, "fleet token create --help", "fleet token create --help"},
		"contexts":               {hub, "select another one: kubectl config get-contexts", "select another one: kubectl --kubeconfig 'my config' config get-contexts"},
		"twice: as once":         {hub, "kubectl --kubeconfig other --context hub get pods", "kubectl --kubeconfig other --context hub get pods"},
		"programs in a sentence": {hub, "kubectl: not found, fleet: unknown", "kubectl: not found, fleet: unknown"},
		"sentence: unchanged":    {hub, "run the command again", "run the command again"},
		"program: unchanged":     {hub, "kubeadm certs renew", "kubeadm certs renew"},
		"program without args":   {remedy.Target{Context: "hub"}, "kubectl", "kubectl --context hub"},
		"empty":                  {hub, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.target.On(test.line); got != test.want {
				t.Errorf("%s\nwant\n%s", got, test.want)
			}
		})
	}
}
