package hubclient_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	"github.com/fleet-hub/fleet/internal/cmd/cli/hubclient"
	"github.com/fleet-hub/fleet/internal/kube/kubetest"
)

func TestReadOwnCluster_SendsADryRunWithTheToken(t *testing.T) {
	var got string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got = r.Method + " " + r.URL.RequestURI() + " " + r.Header.Get("Authorization") + " " + string(body)
		_, _ = io.WriteString(w, `{"metadata":{"managedFields":[{"manager":"fleet-agent:u-1","fieldsV1":{"f:status":{"f:agent":{"f:lastSeen":{}}}}}]},
			"status":{"agent":{"lastSeen":"2026-05-04T11:59:00Z"}}}`) // the client has gone
	}))
	defer server.Close()
	client, err := hubclient.New(server.URL, kubetest.CAOf(server), "bearer", clitest.Noon)
	if err != nil {
		t.Fatal(err)
	}
	seen, err := client.ReadOwnCluster(t.Context(), "a/b", "west")
	if err != nil || seen.Account != "u-1" || !seen.LastSeen.Equal(clitest.Noon().Add(-time.Minute)) {
		t.Errorf("seen %+v, %v", seen, err)
	}
	const want = "PATCH /apis/fleet.cattle.io/v1alpha1/namespaces/a%2Fb/clusters/west/status?dryRun=All&fieldManager=fleet Bearer bearer {}"
	if got != want {
		t.Errorf("request %q, want %q", got, want)
	}
}

func TestClockOf(t *testing.T) {
	header := func(date string) http.Header { return http.Header{"Date": {date}} }
	for name, test := range map[string]struct {
		header http.Header
		want   hubclient.Response
	}{
		"ahead":   {header("Mon, 04 May 2026 12:01:00 GMT"), hubclient.Response{Offset: time.Minute, Known: true}},
		"behind":  {header("Mon, 04 May 2026 11:59:00 GMT"), hubclient.Response{Offset: -time.Minute, Known: true}},
		"no date": {header("noon"), hubclient.Response{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := hubclient.ClockOf(test.header, clitest.Noon()); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}
