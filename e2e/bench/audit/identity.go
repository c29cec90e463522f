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
	// Controller is the controller's user name; Workspace is where the tokens are; Agent is how requests of a measurement's
	// own clients begin their user agent.
	Controller, Workspace, Agent string
}

// Who is the identity of a request.
func (c Classifier) Who(e Event) Identity {
	const account = "system:serviceaccount:"
	name := e.User.Username
	namespace, isAccount := strings.CutPrefix(name, account)
	namespace, _, _ = strings.Cut(namespace, ":")
	switch {
	case name == c.Controller:
		return Controller
	case isAccount && namespace == c.Workspace:
		return Import
	case isAccount && strings.HasPrefix(namespace, "cluster-") && isAgent(e.UserAgent):
		return Request
	case isAccount && strings.HasPrefix(namespace, "cluster-"):
		return Proof
	case isAccount && namespace == "kube-system", !isAccount && strings.HasPrefix(name, "system:"):
		return Kubernetes
	case name == "admin" && c.Agent != "" && strings.HasPrefix(e.UserAgent, c.Agent):
		return Bench
	case name == "admin":
		return Admin
	}
	return Other
}

// isAgent holds for the user agents of the project's agent and of those that are played.
func isAgent(userAgent string) bool {
	return strings.HasPrefix(userAgent, "fleetagent") || strings.HasPrefix(userAgent, "fleet-swarm")
}
