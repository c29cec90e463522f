package audit

import "strings"

// Identity is who sends requests, as far as costs are concerned.
type Identity string

// Identities.
const (
	// Controller is the account of fleetcontroller.
	Controller Identity = "controller"
	// Import are the accounts of tokens, under which agents register.
	Import Identity = "import accounts"
	// Request are the accounts of registrations, under which agents work, and Proof is the controller that tries the
	// token of one before it hands it out.
	Request Identity = "request accounts"
	Proof   Identity = "controller, as request account"
	// Kubernetes are the hub's own components.
	Kubernetes Identity = "kubernetes"
	// Admin is the user admin: who installs, and who plays the nodes.
	Admin Identity = "admin"
	// Bench is who measures.
	Bench Identity = "bench"
	// Other is everybody else, such as the agent of the hub's own cluster.
	Other Identity = "other"
)

// Classifier knows the names of the hub.
type Classifier struct {
	// Controller is the controller's user name; Workspace is where the tokens are.
	Controller, Workspace string
	// Played begins the user agent of the agents, Agent that of the measurement's own clients.
	Played, Agent string
}

// Who is the identity of a request.
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

// account is whose a request of an account in a namespace is.
func (c Classifier) account(e Event, namespace string) Identity {
	switch {
	case e.User.Username == c.Controller:
		return Controller
	case namespace == c.Workspace:
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
