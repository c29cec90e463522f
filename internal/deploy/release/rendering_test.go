package release

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"

	"github.com/fleet-hub/fleet/internal/deploy/bounded"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	"github.com/fleet-hub/fleet/internal/deploy/source"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A values schema whose references expand to 2^40 can take as long as an endless template.
func TestValuesSchema_IsLimitedLikeTemplates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &chart.Chart{Metadata: &chart.Metadata{Name: "web"}, Schema: []byte(`{"required": ["missing"]}`)}
		in := Installation{
			Chart: c, Options: &fleet.BundleDeploymentOptions{}, Release: placement.Release{Namespace: "web", Name: "web"}, DeploymentID: "1",
			Finish: &source.PostRenderer{Package: &source.Package{Chart: c}},
		}
		bounds, endless := bounded.New(bounded.Options{Agent: placement.AgentSet(""), Clock: time.Now, Log: slog.New(slog.DiscardHandler)}), make(chan struct{})
		go func() {
			_, _ = bounds.Render(in.Set, "", in.Release, in.DeploymentID, func() (map[string]string, error) {
				<-endless
				return nil, nil
			})
		}()
		synctest.Wait()
		r := &rendering{in: in, bounds: bounds, capabilities: func() *chartutil.Capabilities { return nil }}
		if err := r.render(engine.Engine{}); err == nil || !strings.Contains(err.Error(), "by an earlier attempt") {
			t.Errorf("the schema is evaluated without the limit: error %v", err)
		}
		c.Schema = []byte(`{"$ref": "file:///etc/hostname"}`)
		if err := (&rendering{in: in, capabilities: r.capabilities}).render(engine.Engine{}); err == nil || !strings.Contains(err.Error(), "cannot refer to a file") {
			t.Errorf("the schema reads a file: error %v", err)
		}
		c.Schema = []byte(`{"required": ["missing"]}`)
		close(endless)
		synctest.Wait()
		want := "values don't meet the specifications of the schema(s) in the following chart(s):\nweb:\n- at '': missing property 'missing'\n"
		if err := r.render(engine.Engine{}); err == nil || err.Error() != want {
			t.Errorf("error %v, want %q", err, want)
		}
	})
}
