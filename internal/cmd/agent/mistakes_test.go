package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/registering"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// The last log line says what to do. Kubernetes restarts the container, and after the repair the agent joins.
func TestInvalidBootstrap_ExitsWithTheRemedyAndJoinsAfterRepair(t *testing.T) {
	tests := map[string]struct {
		// spoil alters what was delivered.
		spoil func(*site, *corev1.Secret, *corev1.ConfigMap)
		says  []string
	}{
		"malformed": {
			func(_ *site, s *corev1.Secret, _ *corev1.ConfigMap) {
				s.Data = map[string][]byte{"values": []byte("- {")}
			},
			[]string{registering.ErrBootstrapUnusable.Error(), `key "values"`, "run on the hub: fleet repair CLUSTER -n WORKSPACE"},
		},
		"incomplete": {
			func(_ *site, s *corev1.Secret, _ *corev1.ConfigMap) { delete(s.Data, "token") },
			[]string{registering.ErrBootstrapUnusable.Error(), "keys: token", "run on the hub: fleet repair CLUSTER -n WORKSPACE"},
		},
		"no-url": {
			func(_ *site, s *corev1.Secret, _ *corev1.ConfigMap) { s.Data["apiServerURL"] = nil },
			[]string{registering.ErrBootstrapUnusable.Error(), "keys: apiServerURL", "run on the hub: fleet repair CLUSTER -n WORKSPACE"},
		},
		"ca-is-none": {
			func(_ *site, s *corev1.Secret, _ *corev1.ConfigMap) { s.Data["apiServerCA"] = []byte("a certificate") },
			[]string{registering.ErrBootstrapUnusable.Error(), "run on the hub: fleet repair CLUSTER -n WORKSPACE"},
		},
		"tls-mode": {
			func(_ *site, _ *corev1.Secret, c *corev1.ConfigMap) { c.Data["config"] = `{"agentTLSMode":"lax"}` },
			[]string{registering.ErrBootstrapUnusable.Error(), kube.ErrUnknownTLSMode.Error(), "correct ConfigMap fleet-agent"},
		},
		"strict-without-ca": {
			func(_ *site, s *corev1.Secret, _ *corev1.ConfigMap) { delete(s.Data, "apiServerCA") },
			[]string{registering.ErrBootstrapUnusable.Error(), kube.ErrNoCA.Error(), "correct ConfigMap fleet-agent"},
		},
		"config": {
			func(_ *site, _ *corev1.Secret, c *corev1.ConfigMap) { c.Data["config"] = "{" },
			[]string{registering.ErrBootstrapUnusable.Error(), "correct ConfigMap fleet-agent"},
		},
		"untrusted": {
			func(s *site, secret *corev1.Secret, _ *corev1.ConfigMap) {
				secret.Data["apiServerCA"] = s.plane.Cluster(east).CA
			},
			[]string{registering.ErrUntrustedCA.Error(), "check apiServerURL, apiServerCA and agentTLSMode"},
		},
		"token-ended": {
			func(s *site, _ *corev1.Secret, _ *corev1.ConfigMap) { s.endToken("t1") },
			[]string{registering.ErrTokenRejected.Error(), `ClusterRegistrationToken "t1"`, "it has expired or was deleted", "run on the hub: fleet repair CLUSTER -n WORKSPACE"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "mistake-"+name)
			_, values := s.token("t1")
			s.deliver(values)
			s.spoil(test.spoil)
			s.startPod(first)
			s.expectExit(first, test.says...)
			s.expectSecretsKept(first, values.Token)
			s.expectRequests(0)

			token, values := s.token("t2")
			s.spoil(func(_ *site, secret *corev1.Secret, _ *corev1.ConfigMap) { delete(secret.Data, "values") }) // which delivering leaves there
			s.deliver(values)
			s.answer(token)
			s.expectReady(first, true)
		})
	}
}

// A token name that is not a valid label value cannot be sent to the hub. The agent keeps running, because the hub
// may know its token otherwise.
func TestTooLongTokenName_LogsTheRemedy(t *testing.T) {
	s := newSite(t, "long-name")
	_, values := s.token("t1")
	values.TokenName = strings.Repeat("t", 64)
	s.deliver(values)
	s.startPod(first)
	s.expectLog(first, "use a token whose name has at most 63 characters", 1)
	s.expectReady(first, false)

	token, values := s.token("t2")
	for _, request := range s.requests() { // which nobody answers
		s.must(s.fleet.Delete().Namespace(s.workspace).Resource("clusterregistrations").Name(request.Name).Do(t.Context()).Error())
	}
	s.deliver(values)
	s.answer(token)
	s.expectReady(first, true)
	if n := s.restarts(first); n != 0 {
		t.Errorf("the agent was restarted %d times", n)
	}
}

// spoil alters what was delivered.
func (s *site) spoil(change func(*site, *corev1.Secret, *corev1.ConfigMap)) {
	s.t.Helper()
	ctx, core := s.t.Context(), s.eastCore.CoreV1()
	secret, err := s.secret(names.AgentBootstrap)
	s.must(err)
	configuration, err := core.ConfigMaps(s.namespace).Get(ctx, names.Agent, metav1.GetOptions{})
	s.must(err)
	change(s, secret, configuration)
	_, err = core.Secrets(s.namespace).Update(ctx, secret, metav1.UpdateOptions{})
	s.must(err)
	_, err = core.ConfigMaps(s.namespace).Update(ctx, configuration, metav1.UpdateOptions{})
	s.must(err)
}

// endToken does what the hub does when a token ends: its account goes.
func (s *site) endToken(name string) {
	s.t.Helper()
	ctx, token := s.t.Context(), &fleet.ClusterRegistrationToken{}
	s.must(s.fleet.Get().Namespace(s.workspace).Resource("clusterregistrationtokens").Name(name).Do(ctx).Into(token))
	s.must(s.hubCore.CoreV1().ServiceAccounts(s.workspace).Delete(ctx, names.ImportAccount(name, string(token.UID)), metav1.DeleteOptions{}))
	s.must(s.fleet.Delete().Namespace(s.workspace).Resource("clusterregistrationtokens").Name(name).Do(ctx).Error())
}

// expectExit waits until the pod's process has ended with these words in one line, and code 1.
func (s *site) expectExit(pod string, says ...string) {
	s.t.Helper()
	s.eventually("the agent to end, saying why", func(ctx context.Context) error {
		found, err := s.eastCore.CoreV1().Pods(s.namespace).Get(ctx, pod, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(found.Status.ContainerStatuses) == 0 {
			return errors.New("it has not started")
		}
		status := found.Status.ContainerStatuses[0]
		ended := status.State.Terminated
		if ended == nil {
			ended = status.LastTerminationState.Terminated
		}
		if ended == nil {
			return errors.New("it runs")
		}
		if ended.ExitCode != 1 {
			return fmt.Errorf("exit code %d", ended.ExitCode)
		}
		return nil
	})
	for line := range strings.Lines(s.log(pod)) {
		words, last := strings.CutPrefix(line, "fleetagent: ")
		if !last {
			continue
		}
		for _, part := range says {
			if !strings.Contains(words, part) {
				s.t.Errorf("the last words are %q, without %q", words, part)
			}
		}
		return
	}
	s.t.Errorf("no last words in %s", s.log(pod))
}

// expectSecretsKept fails if the log tells a token.
func (s *site) expectSecretsKept(pod, token string) {
	s.t.Helper()
	signature := token[strings.LastIndex(token, ".")+1:]
	if strings.Contains(s.log(pod), signature) {
		s.t.Error("the log has the token in it")
	}
}
