package cli

import (
	"bytes"
	"context"
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

	"github.com/fleet-hub/fleet/internal/cmd/cli"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// through starts a proxy for the API server of a cluster, which calls on after each write. It returns a kubeconfig that
// leads through it.
func through(cluster string, on func(count int32)) (string, *httptest.Server) {
	GinkgoHelper()
	config := configOf(cluster)
	transport, err := rest.TransportFor(config)
	Expect(err).NotTo(HaveOccurred())
	target, err := url.Parse(config.Host)
	Expect(err).NotTo(HaveOccurred())
	var count atomic.Int32
	proxy := &httputil.ReverseProxy{
		Transport: transport,
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: func(response *http.Response) error {
			if response.Request.Method != http.MethodGet {
				on(count.Add(1))
			}
			return nil
		},
	}
	server := httptest.NewServer(proxy)
	all := clientcmdapi.NewConfig()
	all.Clusters[cluster] = &clientcmdapi.Cluster{Server: server.URL}
	all.Contexts[cluster] = &clientcmdapi.Context{Cluster: cluster}
	all.CurrentContext = cluster
	path := filepath.Join(world.LogDir, "interrupted-kubeconfig")
	Expect(clientcmd.WriteToFile(*all, path)).To(Succeed())
	return path, server
}

var _ = Describe("A join that is interrupted", Ordered, func() {
	It("after any write removes what it created, and can be run again", func(ctx SpecContext) {
		text := joinText(run(ctx, "", "token", "create", lake, "--cluster", lake).stdout)
		for at := int32(1); ; at++ {
			Expect(at).To(BeNumerically("<", 60), "it never ends")
			interruptible, interrupt := context.WithCancel(ctx)
			path, proxy := through(lake, func(count int32) {
				if count == at {
					interrupt()
				}
			})
			var out, problems bytes.Buffer
			code := cli.Run(interruptible, []string{"fleet", "join", "--kubeconfig", path},
				genericiooptions.IOStreams{In: strings.NewReader(text), Out: &out, ErrOut: &problems}, func(string) string { return "" })
			interrupted := interruptible.Err() != nil
			interrupt()
			proxy.Close()
			if code == exit.Done {
				GinkgoWriter.Printf("%d writes\n", at-1)
				Expect(interrupted).To(BeFalse())
				return
			}
			Expect(problems.String()).To(ContainSubstring("interrupted"), "write %d", at)
			Expect(code).To(Equal(exit.Failed))
			_, err := world.On(lake).Kube.CoreV1().Namespaces().Get(ctx, names.SystemNamespace, metav1.GetOptions{})
			Expect(apierrors.IsNotFound(err)).To(BeTrue(), "write %d: %v\n%s", at, err, problems.String())
			roles, err := world.On(lake).Kube.RbacV1().ClusterRoles().List(ctx, metav1.ListOptions{})
			Expect(err).NotTo(HaveOccurred())
			for _, role := range roles.Items {
				Expect(role.Name).NotTo(ContainSubstring("fleet-agent"), "write %d", at)
			}
		}
	})
})
