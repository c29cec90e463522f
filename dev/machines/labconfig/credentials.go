package labconfig

import (
	"fmt"
	"net"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fleet-hub/fleet/dev/machines/clustersecrets"
	"github.com/fleet-hub/fleet/dev/machines/workload"
	"github.com/fleet-hub/fleet/dev/plane/pki"
)

// lifetime is how long the certificates of a control plane are valid. Its machines are not renewed.
const lifetime = 365 * 24 * time.Hour

// machineIn describes a machine of a cluster.
type machineIn struct {
	cluster  string
	endpoint clusterv1.APIEndpoint
	node     string
	now      time.Time
}

// controlPlane issues the certificates of a control plane.
func (m machineIn) controlPlane(keys Keys, files []file) (ControlPlane, error) {
	c := ControlPlane{Node: m.node, Port: int(m.endpoint.Port), CA: keys.CA.Pair, Accounts: keys.Accounts, files: files}
	var addresses []net.IP
	if address := net.ParseIP(m.endpoint.Host); address != nil {
		addresses = append(addresses, address)
	}
	var err error
	if c.Serving, err = keys.CA.Serving(m.now, addresses...); err != nil {
		return c, fmt.Errorf("creating the certificate of the API server: %w", err)
	}
	if c.Controllers, err = m.kubeconfig(keys.CA, pki.Client{User: "system:kube-controller-manager", Lifetime: lifetime}); err != nil {
		return c, err
	}
	if c.Kubelet, err = m.kubeconfig(keys.CA, pki.Client{User: "system:node:" + m.node, Groups: []string{"system:nodes"}, Lifetime: lifetime}); err != nil {
		return c, err
	}
	// It requests tokens of all ServiceAccounts, which is as much as an administrator may do.
	c.Pods, err = m.kubeconfig(keys.CA, pki.Client{User: "lab:podrunner", Groups: []string{"system:masters"}, Lifetime: lifetime})
	return c, err
}

func (m machineIn) kubeconfig(ca pki.Authority, of pki.Client) ([]byte, error) {
	client, err := ca.Client(m.now, of)
	if err != nil {
		return nil, fmt.Errorf("creating the certificate of %s: %w", of.User, err)
	}
	return pki.Access{Name: m.cluster, URL: clustersecrets.URL(m.endpoint), CA: ca.Certificate, Client: client}.Kubeconfig()
}

// worker returns the files of a worker, with the token of the LabConfig with this UID.
func (m machineIn) worker(keys Keys, uid types.UID, files []file) (Worker, error) {
	token := workload.NewToken(keys.CA, uid)
	kubeconfig, err := pki.Access{Name: m.cluster, URL: clustersecrets.URL(m.endpoint), CA: keys.CA.Certificate, Token: token.Bearer()}.Kubeconfig()
	return Worker{Node: m.node, Kubeconfig: kubeconfig, files: files}, err
}
