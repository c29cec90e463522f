package cli

import (
	"encoding/json"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	kubeconfigs "github.com/fleet-hub/fleet/internal/kube/kubeconfig"
)

// viaCommand returns a kubeconfig whose context login runs a command to log in to west. Its other contexts are those of all
// clusters.
func viaCommand() string {
	GinkgoHelper()
	document, err := world.Kubeconfig()
	Expect(err).NotTo(HaveOccurred())
	all, err := clientcmd.Load(document)
	Expect(err).NotTo(HaveOccurred())
	folder := GinkgoT().TempDir()
	credential, err := json.Marshal(map[string]any{
		"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": map[string]any{"token": all.AuthInfos[west].Token},
	})
	Expect(err).NotTo(HaveOccurred())
	file := filepath.Join(folder, "credential")
	Expect(os.WriteFile(file, credential, 0o600)).To(Succeed())
	all.AuthInfos["login"] = &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
		APIVersion: "client.authentication.k8s.io/v1", Command: "cat", Args: []string{file}, InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
	}}
	all.Contexts["login"] = &clientcmdapi.Context{Cluster: west, AuthInfo: "login"}
	path := filepath.Join(folder, "kubeconfig")
	Expect(clientcmd.WriteToFile(*all, path)).To(Succeed())
	return path
}

var _ = Describe("A cluster is imported with a kubeconfig as it is", Ordered, func() {
	leaves(framework.Workspace, west, west)

	It("not if the kubeconfig runs a command to log in", func(ctx SpecContext) {
		path := viaCommand()
		refused := run(ctx, "", "import", west, "--kubeconfig", path, "--cluster-context", "login", "--as-is")
		Expect(refused.code).To(Equal(exit.Refused))
		Expect(refused.stderr).To(ContainSubstring("the hub would refuse the kubeconfig: the kubeconfig runs a command to log in (exec)"))
		Expect(refused.stderr).To(HaveSuffix("fix: leave out --as-is: then the hub gets the token of a service account of its own\n"))
		_, err := world.Hub.Kube.CoreV1().Secrets(framework.Workspace).Get(ctx, "west-kubeconfig", metav1.GetOptions{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue())

		shown := run(ctx, "", "import", west, "--kubeconfig", path, "--cluster-context", "login", "--dry-run")
		Expect(shown.code).To(Equal(exit.Done), shown.stderr)
		Expect(shown.stdout).To(ContainSubstring("kind: ServiceAccount\n"))
	})

	It("if it contains a token, and creates no account", func(ctx SpecContext) {
		imported := run(ctx, "", "import", west, "--cluster-context", west, "--as-is")
		Expect(imported.code).To(Equal(exit.Done), imported.stderr)
		secret, err := world.Hub.Kube.CoreV1().Secrets(framework.Workspace).Get(ctx, "west-kubeconfig", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		given, err := kubeconfigs.Safe(secret.Data["value"])
		Expect(err).NotTo(HaveOccurred())
		Expect(given.BearerToken == configOf(west).BearerToken).To(BeTrue())
		_, err = world.On(west).Kube.CoreV1().ServiceAccounts(metav1.NamespaceSystem).Get(ctx, accountOf(ctx, west), metav1.GetOptions{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue())
	})
})
