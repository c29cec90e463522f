package gather

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	kubeconfigs "github.com/fleet-hub/fleet/internal/kube/kubeconfig"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

const (
	system = names.SystemNamespace
	server = "https://hub.example.com:6443"
)

// token returns a token of an account.
func token(uid string, expires int64) string {
	claims := fmt.Sprintf(`{"exp":%d,"kubernetes.io":{"serviceaccount":{"uid":%q}}}`, expires, uid)
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".CANARY"
}

// identity returns Secret fleet-agent.
func identity(t *testing.T, server string, ca []byte, token string) *corev1.Secret {
	t.Helper()
	cfg := api.NewConfig()
	cfg.Clusters["cluster"] = &api.Cluster{Server: server, CertificateAuthorityData: ca}
	cfg.AuthInfos["user"] = &api.AuthInfo{Token: token}
	cfg.Contexts["default"] = &api.Context{Cluster: "cluster", AuthInfo: "user"}
	cfg.CurrentContext = "default"
	encoded, err := clientcmd.Write(*cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{ObjectMeta: clitest.AgentMeta(names.Agent), Data: protocol.Identity{
		Kubeconfig: encoded, DeploymentNamespace: "cluster-fleet-default-east-0f0350029557", ClusterNamespace: "fleet-default", ClusterName: "east",
	}.Encode()}
}

func TestReadCredential(t *testing.T) {
	ca := clitest.CertificatePEM(t, clitest.Noon())
	exec := identity(t, server, ca, "")
	exec.Data["kubeconfig"] = []byte(strings.Replace(string(exec.Data["kubeconfig"]), "user: {}", "user: {exec: {command: rm, apiVersion: client.authentication.k8s.io/v1}}", 1))
	huge := identity(t, server, ca, "x")
	huge.Data["kubeconfig"] = append(huge.Data["kubeconfig"], make([]byte, check.MaxKubeconfig)...)
	incomplete := identity(t, server, ca, "x")
	delete(incomplete.Data, "clusterName")
	for name, test := range map[string]struct {
		secret  *corev1.Secret
		is      error
		account string
		expires time.Time
		token   string
	}{
		"complete":              {identity(t, server, ca, token("u-1", clitest.Noon().Unix())), nil, "u-1", clitest.Noon(), token("u-1", clitest.Noon().Unix())},
		"token without claims":  {identity(t, server, ca, "opaque"), nil, "", time.Time{}, "opaque"},
		"no token":              {identity(t, server, ca, ""), kubeconfigs.ErrKubeconfigMalformed, "", time.Time{}, ""},
		"token is too long":     {identity(t, server, ca, strings.Repeat("x", check.MaxToken+1)), kubeconfigs.ErrKubeconfigMalformed, "", time.Time{}, ""},
		"key is missing":        {incomplete, protocol.ErrIncomplete, "", time.Time{}, ""},
		"runs a command":        {exec, kubeconfigs.ErrKubeconfigExec, "", time.Time{}, ""},
		"kubeconfig is too big": {huge, kubeconfigs.ErrKubeconfigMalformed, "", time.Time{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, token := readCredential(test.secret)
			if !got.Exists || !errors.Is(got.Err, test.is) || got.Account != test.account || !got.Expires.Equal(test.expires) || token != test.token {
				t.Errorf("%+v, %d bytes of token", got, len(token))
			}
			if strings.Contains(fmt.Sprintf("%+v", got), "CANARY") {
				t.Error("the facts contain the token")
			}
		})
	}
	if got, token := readCredential(nil); got.Exists || token != "" {
		t.Errorf("%+v", got)
	}
}

func TestReadBootstrap(t *testing.T) {
	complete := protocol.Bootstrap{APIServerURL: server, ClusterNamespace: "fleet-default", Token: "CANARY", SystemRegistrationNamespace: "s"}
	secret := &corev1.Secret{ObjectMeta: clitest.AgentMeta(names.AgentBootstrap), Data: complete.Encode()}
	at := clitest.Ago(time.Minute)
	secret.ManagedFields = []metav1.ManagedFieldsEntry{{Time: &at}}
	got := readBootstrap(secret)
	if !got.Exists || got.Err != nil || got.Server != server || got.Workspace != "fleet-default" || !got.Since.Equal(at.Time) {
		t.Errorf("%+v", got)
	}
	delete(secret.Data, "token")
	if got := readBootstrap(secret); !errors.Is(got.Err, protocol.ErrIncomplete) {
		t.Errorf("%+v", got)
	}
	if got := readBootstrap(nil); got.Exists {
		t.Errorf("%+v", got)
	}
}
