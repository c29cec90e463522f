package agent

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	"github.com/fleet-hub/fleet/internal/cmd/cli/hubclient"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

const (
	// clockWarning and clockFailure are differences between clocks.
	clockWarning = time.Minute
	clockFailure = 5 * time.Minute
	// defaultCheckin is the interval of heartbeats if the Deployment names none.
	defaultCheckin = 15 * time.Minute
	// missedHeartbeats is how many heartbeats an agent may miss.
	missedHeartbeats = 3
)

// hubChecks returns the checks of the agent's connection to its hub.
func hubChecks() []check.Check[*Facts] {
	credential := sources(SourceCredential)
	return []check.Check[*Facts]{
		{ID: "agent-hub-url", Needs: credential, Judge: checkURL},
		{ID: "agent-hub-ca", Needs: sources(SourceCredential, SourceSettings), Judge: checkCA},
		{ID: "agent-hub-certificate", Needs: credential, Judge: checkCertificate},
		{ID: "agent-hub-ready", Needs: credential, Judge: checkReady},
		{ID: "agent-hub-accepts", Needs: credential, Judge: checkAccepts},
		{ID: "agent-hub-heartbeat", Needs: sources(SourceCredential, SourceDeployment), Judge: checkHeartbeat},
		{ID: "agent-clock", Needs: credential, Judge: checkClock},
		{ID: "agent-proxy", Needs: sources(SourceDeployment, SourceCredential), Judge: checkProxy},
	}
}

func checkURL(f *Facts) []check.Row {
	if !f.Credential.Usable() {
		return nil // check agent-credential reports it
	}
	if err := protocol.CheckHubURL(f.Credential.Server); err != nil {
		drop := f.onCluster("kubectl", "delete", "secret", "-n", f.Namespace, names.Agent) // it keeps the agent from registering elsewhere
		return []check.Row{check.Fail(f.secret(names.Agent), fmt.Sprintf("%q: %v", f.Credential.Server, err), drop+" && "+f.repair())}
	}
	return []check.Row{check.Ok(f.secret(names.Agent), f.Credential.Server)}
}

func checkCA(f *Facts) []check.Row {
	if !f.Credential.Usable() {
		return nil
	}
	if len(f.Credential.CA) == 0 {
		if f.Settings.Exists && f.Settings.AgentTLSMode == config.TLSModeStrict {
			return []check.Row{check.Fail(f.secret(names.Agent), "the TLS mode is strict and the Secret contains no CA: the agent trusts no certificate of the hub", f.repair())}
		}
		return []check.Row{check.Ok(f.secret(names.Agent), "no CA: the agent trusts the roots of its system")}
	}
	last, found := check.LastExpiry(f.Credential.CA)
	if !found {
		return []check.Row{check.Fail(f.secret(names.Agent), "the CA contains no certificate in PEM: the agent trusts no certificate of the hub", f.repair())}
	}
	return []check.Row{check.Certificate(f.secret(names.Agent), "the CA", last, f.Now, f.repair())}
}

// notAsked is the row of a check that needs an answer of the hub, if there is none.
func (f *Facts) notAsked() []check.Row {
	why := "there is no TLS connection to the hub"
	if !f.Probe.Sent {
		why = "there is no usable credential"
	}
	return []check.Row{{Verdict: check.Skipped, Cause: "the hub was not asked, because " + why}}
}

func checkCertificate(f *Facts) []check.Row {
	if !f.Probe.Sent {
		return f.notAsked()
	}
	server, target := f.Credential.Server, f.secret(names.Agent)
	var host x509.HostnameError
	switch err := f.Probe.Err; {
	case err == nil && f.Probe.Answer.Expires.IsZero():
		return nil
	case err == nil:
		return []check.Row{check.Certificate(target, "the certificate of "+server, f.Probe.Answer.Expires, f.Now, "on the hub, renew the certificate of the API server, with kubeadm: kubeadm certs renew apiserver")}
	case errors.As(err, &host):
		return []check.Row{check.Fail(target, fmt.Sprintf("the certificate of %s is for other names: %s", server, excerpt(host.Error())), f.repair())}
	case errors.Is(err, foreign.ErrExpired):
		return []check.Row{check.Fail(target, fmt.Sprintf("the certificate of %s has expired or is not valid yet, or the clock of this machine is wrong", server),
			"on the hub, renew the certificate of the API server, with kubeadm: kubeadm certs renew apiserver")}
	case errors.Is(err, foreign.ErrUntrusted):
		return []check.Row{check.Fail(target, fmt.Sprintf("the certificate of %s is not signed by the CA in the Secret: another server answers there, or the CA was replaced. The token was not sent", server), f.repair())}
	case errors.Is(err, foreign.ErrRedirected):
		return []check.Row{check.Fail(target, fmt.Sprintf("the server at %s redirects, so it is not an API server", server), f.repair())}
	}
	return []check.Row{check.Warn(target, fmt.Sprintf("no hub answers at %s from this machine: %s. The agent's pods may still reach it", server, excerpt(hubclient.Cause(f.Probe.Err))), f.logs())}
}

func checkReady(f *Facts) []check.Row {
	switch err := f.Probe.ReadyErr; {
	case !f.Probe.Sent, f.Probe.Err != nil:
		return f.notAsked()
	case err == nil, hubclient.HasCode(err, http.StatusUnauthorized): // check agent-hub-accepts reports it
		return nil
	case hubclient.HasCode(err, http.StatusForbidden):
		return []check.Row{check.Warn(f.secret(names.Agent), "/readyz: "+err.Error(), f.onHub("kubectl", "describe", "clusterrolebinding", "system:public-info-viewer"))}
	default:
		return []check.Row{check.Fail(f.secret(names.Agent), fmt.Sprintf("/readyz of %s: %s", f.Credential.Server, err), f.onHub("kubectl", "get", "--raw", "/readyz?verbose"))}
	}
}

func checkAccepts(f *Facts) []check.Row {
	target, cluster := f.secret(names.Agent), f.Credential.Cluster
	switch err := f.Probe.AcceptErr; {
	case !f.Probe.Sent, f.Probe.Err != nil:
		return f.notAsked()
	case err == nil:
		return []check.Row{check.Ok(target, fmt.Sprintf("the hub accepts the agent as Cluster %s", cluster))}
	case hubclient.HasCode(err, http.StatusUnauthorized):
		return []check.Row{check.Fail(target, "the hub rejects the token (401): the agent's account or its token was deleted, or the hub's signing key was replaced", f.repair())}
	case hubclient.HasCode(err, http.StatusForbidden):
		return []check.Row{check.Fail(target, fmt.Sprintf("the hub knows the token and refuses the agent's requests (403): the rights of Cluster %s were deleted", cluster), f.repair())}
	case hubclient.HasCode(err, http.StatusNotFound):
		return []check.Row{check.Fail(target, fmt.Sprintf("Cluster %s does not exist on the hub (404)", cluster), f.repair())}
	default:
		return []check.Row{check.Warn(target, "the hub did not answer as expected: "+excerpt(hubclient.Cause(err)), "run the command again")}
	}
}

// checkin returns the interval of heartbeats in the Deployment.
func (f *Facts) checkin() time.Duration {
	value, _ := f.variable("CHECKIN_INTERVAL")
	if interval, err := time.ParseDuration(value); err == nil && interval > 0 {
		return interval
	}
	return defaultCheckin
}

// variable returns the value of a variable of the agent's container.
func (f *Facts) variable(name string) (value string, found bool) {
	if f.Deployment == nil {
		return "", false
	}
	for _, container := range f.Deployment.Spec.Template.Spec.Containers {
		for _, variable := range container.Env {
			if variable.Name == name && variable.ValueFrom == nil {
				value, found = variable.Value, true
			}
		}
	}
	return value, found
}

func checkHeartbeat(f *Facts) []check.Row {
	target, seen := f.secret(names.Agent), f.Probe.Seen
	if !f.Probe.Sent || f.Probe.Err != nil || f.Probe.AcceptErr != nil {
		return f.notAccepted()
	}
	switch age := f.Now.Sub(seen.LastSeen); {
	case seen.LastSeen.IsZero():
		return []check.Row{check.Fail(target, "the hub accepts the credential and has no heartbeat of the agent", f.logs())}
	case f.Credential.Account != "" && seen.Account != "" && seen.Account != f.Credential.Account:
		return []check.Row{check.Fail(target, "the last heartbeat came with another credential: another agent reports for this Cluster, or this one has not reported since it was registered", f.restart())}
	case age > missedHeartbeats*f.checkin():
		return []check.Row{check.Fail(target, fmt.Sprintf("the last heartbeat is %s old, and the interval is %s", duration.HumanDuration(age), f.checkin()), f.restart())}
	default:
		return []check.Row{check.Ok(target, fmt.Sprintf("the last heartbeat is %s old", duration.HumanDuration(max(age, 0))))}
	}
}

// notAccepted is the row of a check that needs a hub that accepts the credential.
func (f *Facts) notAccepted() []check.Row {
	if !f.Probe.Sent || f.Probe.Err != nil {
		return f.notAsked()
	}
	return []check.Row{{Verdict: check.Skipped, Cause: "the hub does not accept the credential"}}
}

func checkClock(f *Facts) (rows []check.Row) {
	here, hub := f.Clock, f.Probe.Answer
	const fix = "on the nodes whose clock is wrong: timedatectl set-ntp true"
	judge := func(difference time.Duration, text string) []check.Row {
		difference = difference.Round(time.Second)
		switch {
		case difference.Abs() >= clockFailure:
			return []check.Row{check.Fail(check.Object{}, fmt.Sprintf(text, ahead(difference)), fix)}
		case difference.Abs() >= clockWarning:
			return []check.Row{check.Warn(check.Object{}, fmt.Sprintf(text, ahead(difference)), fix)}
		}
		return nil
	}
	if here.Known && hub.Known {
		rows = judge(here.Offset-hub.Offset, "the clock of the cluster's API server is %s the hub's")
	}
	if here.Known && len(rows) == 0 {
		rows = judge(here.Offset, "the clock of the cluster's API server is %s that of this machine")
	}
	if len(rows) == 0 && here.Known {
		return []check.Row{check.Ok(check.Object{}, "the clocks differ by less than a minute")}
	}
	return rows
}

func ahead(difference time.Duration) string {
	if difference < 0 {
		return fmt.Sprintf("%s behind", -difference)
	}
	return fmt.Sprintf("%s ahead of", difference)
}

// proxyVariables returns the variables that select a proxy for https, those that count first.
func proxyVariables() []string { return []string{"HTTPS_PROXY", "https_proxy"} }

func checkProxy(f *Facts) []check.Row {
	if f.Deployment == nil {
		return nil
	}
	for _, name := range append(proxyVariables(), "HTTP_PROXY", "http_proxy") {
		value, _ := f.variable(name)
		if value != "" && !isProxy(value) {
			return []check.Row{check.Fail(f.deploymentObject(), fmt.Sprintf("%s is not the URL of a proxy: the agent ignores it, or its requests fail", name),
				f.onCluster("kubectl", "set", "env", "-n", f.Namespace, "deployment/"+names.Agent, name+"-"))}
		}
	}
	proxy := f.proxy()
	if proxy.HTTPSProxy == "" {
		return []check.Row{check.Ok(f.deploymentObject(), "no proxy")}
	}
	return []check.Row{check.Ok(f.deploymentObject(), f.route(proxy))}
}

// proxy returns the proxy settings of the agent's container.
func (f *Facts) proxy() httpproxy.Config {
	first := func(names ...string) string {
		for _, name := range names {
			if value, _ := f.variable(name); value != "" {
				return value
			}
		}
		return ""
	}
	return httpproxy.Config{HTTPSProxy: first(proxyVariables()...), NoProxy: first("NO_PROXY", "no_proxy")}
}

// route says how the agent reaches the hub. It contains no password of the proxy.
func (f *Facts) route(settings httpproxy.Config) string {
	server, err := url.Parse(f.Credential.Server)
	if err != nil || server.Host == "" {
		return "a proxy is set"
	}
	proxy, err := settings.ProxyFunc()(server)
	if err != nil || proxy == nil {
		return fmt.Sprintf("the agent reaches %s directly, because NO_PROXY contains it", server.Host)
	}
	return fmt.Sprintf("the agent reaches %s through the proxy %s", server.Host, proxy.Host)
}

// isProxy reports whether Go's HTTP client accepts the URL of a proxy.
func isProxy(value string) bool {
	parsed, err := url.Parse(value)
	if err == nil && parsed.Host != "" {
		switch parsed.Scheme {
		case "http", "https", "socks5", "socks5h":
			return true
		}
	}
	parsed, err = url.Parse("http://" + value) // a proxy may be host:port
	return err == nil && !strings.Contains(value, "://") && parsed.Hostname() != "" && parsed.Path == ""
}
