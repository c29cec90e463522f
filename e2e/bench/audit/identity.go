package audit

import (
	"slices"
	"strings"
)

// Identity is the sender of requests, as distinguished for costs.
type Identity string

// The identities.
const (
	// Controller is the ServiceAccount of fleetcontroller.
	Controller Identity = "controller"
	// Import are the ServiceAccounts of tokens, which agents use to register.
	Import Identity = "import accounts"
	// Request are the ServiceAccounts of registrations, which agents use after that. Proof is the controller that
	// verifies such a credential before it grants it.
	Request Identity = "request accounts"
	Proof   Identity = "controller, as request account"
	// Kubernetes are the hub's own components.
	Kubernetes Identity = "kubernetes"
	// Admin is the user admin, who installs charts and acts as the nodes.
	Admin Identity = "admin"
	// Bench is the measurement.
	Bench Identity = "bench"
	// Other are all others, such as the agent of the hub's own cluster.
	Other Identity = "other"
)

// Classifier holds the names that identify senders.
type Classifier struct {
	// Controller is the controller's user name.
	Controller string
	// Workspaces are the namespaces of the tokens.
	Workspaces []string
	// Played is the start of the simulated agents' user agent, Agent that of the measurement's own clients.
	Played, Agent string
}

// Who returns the identity of a request's sender.
func (c Classifier) Who(e Event) Identity {
	account, isAccount := strings.CutPrefix(e.User.Username, "system:serviceaccount:")
	switch {
	case isAccount:
		namespace, _, _ := strings.Cut(account, ":")
		return c.account(e, namespace)
	case strings.HasPrefix(e.User.Username, "system:"):
		return Kubernetes
	case e.User.Username != "admin":
		return Other
	case c.Agent != "" && strings.HasPrefix(e.UserAgent, c.Agent):
		return Bench
	}
	return Admin
}

// account returns the identity of a ServiceAccount's request.
func (c Classifier) account(e Event, namespace string) Identity {
	switch {
	case e.User.Username == c.Controller:
		return Controller
	case slices.Contains(c.Workspaces, namespace):
		return Import
	case namespace == "kube-system":
		return Kubernetes
	case !strings.HasPrefix(namespace, "cluster-"):
		return Other
	case e.Verb == "list" && !strings.HasPrefix(e.UserAgent, c.Played):
		return Proof
	}
	return Request
}
