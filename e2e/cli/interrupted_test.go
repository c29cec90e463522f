package cli

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/cmd/cli"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// proxy starts a proxy for the API server of a cluster, which calls after each write of the command line. An error of that
// becomes the answer, although the write has happened. Clients without a credential have the admin's.
func proxy(cluster string, after func() error) *httptest.Server {
	GinkgoHelper()
	config := configOf(cluster)
	transport, err := rest.TransportFor(config)
	Expect(err).NotTo(HaveOccurred())
	target, err := url.Parse(config.Host)
	Expect(err).NotTo(HaveOccurred())
	server := httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Transport: transport,
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ErrorLog:  log.New(GinkgoWriter, "proxy: ", 0),
		ModifyResponse: func(response *http.Response) error {
			if response.Request.Method == http.MethodGet || !strings.HasPrefix(response.Request.UserAgent(), "fleet/") {
				return nil
			}
			return after()
		},
	})
	server.Config.ErrorLog = log.New(GinkgoWriter, "proxy: ", 0)
	server.StartTLS()
	return server
}

// through returns a kubeconfig with a context for each of these clusters, the first one being the current one. It leads
// through proxies that call on with the number of the write. end ends them.
func through(on func(count int32) error, clusters ...string) (path string, end func()) {
	GinkgoHelper()
	var count atomic.Int32
	var servers []*httptest.Server
	all := clientcmdapi.NewConfig()
	for _, cluster := range clusters {
		server := proxy(cluster, func() error { return on(count.Add(1)) })
		servers = append(servers, server)
		ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
		all.Clusters[cluster] = &clientcmdapi.Cluster{Server: server.URL, CertificateAuthorityData: ca}
		all.Contexts[cluster] = &clientcmdapi.Context{Cluster: cluster}
	}
	all.CurrentContext = clusters[0]
	path = filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(clientcmd.WriteToFile(*all, path)).To(Succeed())
	return path, func() {
		for _, server := range servers {
			server.Close()
		}
	}
}

// runWith runs a command with a kubeconfig and this standard input. It returns the exit code and what was printed to standard
// error.
func runWith(ctx context.Context, path, stdin string, args ...string) (exit.Code, string) {
	GinkgoHelper()
	leaks.begin()
	var out, problems bytes.Buffer
	code := cli.Run(ctx, append([]string{"fleet", "--kubeconfig", path}, args...),
		genericiooptions.IOStreams{In: strings.NewReader(stdin), Out: &out, ErrOut: &problems}, func(string) string { return "" })
	leaks.addCommand(args, out.String(), problems.String())
	return code, problems.String()
}

var _ = Describe("A join that is interrupted", Ordered, func() {
	leaves(framework.Workspace, west, west)

	It("after any write removes what it created, and can be run again", func(ctx SpecContext) {
		text := joinText(run(ctx, "", "token", "create", west, "--cluster", west).stdout)
		for at := int32(1); ; at++ {
			Expect(at).To(BeNumerically("<", 60), "it never ends")
			interruptible, interrupt := context.WithCancel(ctx)
			path, end := through(func(count int32) error {
				if count == at {
					interrupt()
				}
				return nil
			}, west)
			code, problems := runWith(interruptible, path, text, "join")
			interrupted := interruptible.Err() != nil
			interrupt()
			end()
			if code == exit.Done {
				GinkgoWriter.Printf("%d writes\n", at-1)
				Expect(interrupted).To(BeFalse())
				return
			}
			Expect(problems).To(ContainSubstring("interrupted"), "write %d", at)
			Expect(code).To(Equal(exit.Failed))
			_, err := world.On(west).Kube.CoreV1().Namespaces().Get(ctx, names.SystemNamespace, metav1.GetOptions{})
			Expect(apierrors.IsNotFound(err)).To(BeTrue(), "write %d: %v\n%s", at, err, problems)
			roles, err := world.On(west).Kube.RbacV1().ClusterRoles().List(ctx, metav1.ListOptions{})
			Expect(err).NotTo(HaveOccurred())
			for _, role := range roles.Items {
				Expect(role.Name).NotTo(ContainSubstring("fleet-agent"), "write %d", at)
			}
		}
	})
})

// traces returns what an import of west has left on the hub and on west.
func traces(ctx SpecContext) []string {
	GinkgoHelper()
	var found []string
	add := func(what string, err error) {
		if !apierrors.IsNotFound(err) {
			Expect(err).NotTo(HaveOccurred())
			found = append(found, what)
		}
	}
	account := accountOf(ctx, west)
	core := world.On(west).Kube
	_, err := core.CoreV1().ServiceAccounts(metav1.NamespaceSystem).Get(ctx, account, metav1.GetOptions{})
	add("ServiceAccount", err)
	_, err = core.CoreV1().Secrets(metav1.NamespaceSystem).Get(ctx, account, metav1.GetOptions{})
	add("Secret of the ServiceAccount", err)
	_, err = core.RbacV1().ClusterRoleBindings().Get(ctx, account, metav1.GetOptions{})
	add("ClusterRoleBinding", err)
	_, err = world.Hub.Kube.CoreV1().Secrets(framework.Workspace).Get(ctx, west+"-kubeconfig", metav1.GetOptions{})
	add("Secret with the kubeconfig", err)
	add("Cluster", world.Hub.Get(ctx, client.Clusters, framework.Workspace, west, &fleet.Cluster{}))
	return found
}

var _ = Describe("An import that does not end", Ordered, func() {
	leaves(framework.Workspace, west, west)

	It("because a write fails removes what it created, and can be run again", func(ctx SpecContext) {
		for at := int32(1); at <= 5; at++ {
			path, end := through(func(count int32) error {
				if count == at {
					return errors.New("the answer is lost")
				}
				return nil
			}, hub, west)
			code, problems := runWith(ctx, path, "", "import", west, "--cluster-context", west)
			end()
			Expect(code).To(Equal(exit.Failed), "write %d: %s", at, problems)
			Expect(problems).To(ContainSubstring("removed what was created"), "write %d", at)
			Eventually(traces).WithArguments(ctx).WithTimeout(framework.Patience).Should(BeEmpty(), "write %d: %s", at, problems)
		}
	})

	It("because it is interrupted after any write removes what it created, and can be run again", func(ctx SpecContext) {
		for at := int32(1); ; at++ {
			Expect(at).To(BeNumerically("<", 20), "it never ends")
			interruptible, interrupt := context.WithCancel(ctx)
			path, end := through(func(count int32) error {
				if count == at {
					interrupt()
				}
				return nil
			}, hub, west)
			code, problems := runWith(interruptible, path, "", "import", west, "--cluster-context", west)
			interrupted := interruptible.Err() != nil
			interrupt()
			end()
			if code == exit.Done {
				Expect(interrupted).To(BeFalse())
				Expect(at).To(BeNumerically(">", 5), "each write was interrupted")
				return
			}
			Expect(code).To(Equal(exit.Failed), "write %d: %s", at, problems)
			Expect(problems).To(And(ContainSubstring("removed what was created"), ContainSubstring("interrupted")), "write %d", at)
			Eventually(traces).WithArguments(ctx).WithTimeout(framework.Patience).Should(BeEmpty(), "write %d: %s", at, problems)
		}
	})
})
