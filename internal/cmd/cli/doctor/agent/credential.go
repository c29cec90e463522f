package agent

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// bootstrapPatience is how long a registration may take.
const bootstrapPatience = 5 * time.Minute

// credentialChecks returns the checks of the agent's Secrets and its ConfigMap.
func credentialChecks() []check.Check[*Facts] {
	return []check.Check[*Facts]{
		{ID: "agent-settings", Needs: sources(SourcePlace, SourceSettings), Judge: checkSettings},
		{ID: "agent-credential", Needs: sources(SourcePlace, SourceCredential, SourceBootstrap), Judge: checkCredential},
		{ID: "agent-credential-expiry", Needs: sources(SourceCredential), Judge: checkCredentialExpiry},
		{ID: "agent-bootstrap", Needs: sources(SourceCredential, SourceBootstrap), Judge: checkBootstrap},
	}
}

func checkSettings(f *Facts) []check.Row {
	target := check.Object{Kind: "ConfigMap", Namespace: f.Namespace, Name: names.Agent}
	switch {
	case f.Place == nil, !f.Settings.Exists && f.Deployment == nil:
		return nil // there is no agent
	case !f.Settings.Exists:
		return []check.Row{check.Warn(target, "the ConfigMap does not exist: the agent uses its defaults, and the cluster's UID as its client ID", f.repair())}
	case f.Settings.Err != nil:
		return []check.Row{check.Fail(target, f.Settings.Err.Error(), f.repair())}
	}
	return nil
}

func checkCredential(f *Facts) []check.Row {
	target := f.secret(names.Agent)
	switch {
	case f.Place == nil:
		return nil
	case !f.Credential.Exists && f.Bootstrap.Exists && f.Bootstrap.Err == nil:
		if age := f.Now.Sub(f.Bootstrap.Since); age > bootstrapPatience {
			return []check.Row{check.Fail(target, fmt.Sprintf("the agent has no credential %s after it got its bootstrap secret: its log says what it waits for",
				duration.HumanDuration(age)), f.logs())}
		}
		return []check.Row{check.Warn(target, "the agent is being registered and has no credential yet", f.logs())}
	case !f.Credential.Exists:
		return []check.Row{check.Fail(target, "the agent has neither a credential nor a usable bootstrap secret: it cannot reach the hub", f.repair())}
	case f.Credential.Err != nil:
		return []check.Row{check.Fail(target, "the credential cannot be used: "+f.Credential.Err.Error(), f.repair())}
	}
	return []check.Row{check.Ok(target, fmt.Sprintf("of Cluster %s at %s", f.Credential.Cluster, f.Credential.Server))}
}

// checkCredentialExpiry warns of a token that should have been renewed: agents renew it before 75 % of its lifetime.
func checkCredentialExpiry(f *Facts) []check.Row {
	expires, soon := f.Credential.Expires, check.CredentialWarning
	if lifetime := f.Credential.Lifetime; lifetime > 0 {
		soon = min(soon, lifetime/5)
	}
	if !f.Credential.Usable() || expires.IsZero() {
		return nil
	}
	switch left := expires.Sub(f.Now); {
	case left <= 0:
		return []check.Row{check.Fail(f.secret(names.Agent), "the token expired on "+expires.UTC().Format(time.DateOnly), f.repair())}
	case left < soon:
		return []check.Row{check.Warn(f.secret(names.Agent), "the token expires in "+duration.HumanDuration(left), f.repair())}
	}
	return nil
}

func checkBootstrap(f *Facts) []check.Row {
	b, target := f.Bootstrap, f.secret(names.AgentBootstrap)
	if !b.Exists {
		return nil
	}
	drop := f.onCluster("kubectl", "delete", "secret", "-n", f.Namespace, names.AgentBootstrap)
	age := f.Now.Sub(b.Since)
	switch {
	case b.Err != nil && f.Credential.Usable():
		return []check.Row{check.Warn(target, "the bootstrap secret cannot be used: "+b.Err.Error(), drop)}
	case b.Err != nil:
		return []check.Row{check.Fail(target, "the bootstrap secret cannot be used: "+b.Err.Error(), f.repair())}
	case !f.Credential.Usable(), age < bootstrapPatience: // check agent-credential reports it
		return []check.Row{check.Ok(target, "written "+duration.HumanDuration(age)+" ago for "+b.Server)}
	case !sameServer(b.Server, f.Credential.Server):
		return []check.Row{check.Warn(target, fmt.Sprintf("the agent uses %s. Its bootstrap secret, written %s ago for %s, is still pending: that hub does not answer, or does not grant the registration",
			f.Credential.Server, duration.HumanDuration(age), b.Server), f.logs())}
	}
	return []check.Row{check.Warn(target, fmt.Sprintf("the agent has a credential, and its bootstrap secret still exists after %s", duration.HumanDuration(age)), drop)}
}

// sameServer reports whether two addresses are equal, apart from a slash at the end.
func sameServer(a, b string) bool { return strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/") }
