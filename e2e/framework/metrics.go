package framework

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	corev1 "k8s.io/api/core/v1"
)

// starting matches the log line with the address of a process' metrics.
var starting = regexp.MustCompile(`(?m)^.*msg=starting .*\bmetrics=(\S+)$`)

// Scrape reads the metrics of a pod's process, as Prometheus does.
func (w *World) Scrape(ctx context.Context, cluster string, pod *corev1.Pod) (map[string]*dto.MetricFamily, error) {
	log, err := w.PodLog(cluster, pod.Namespace, pod.Name)
	if err != nil {
		return nil, err
	}
	said := starting.FindAllSubmatch(log, -1)
	if len(said) == 0 {
		return nil, errors.New("the log contains no metrics address")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/metrics", said[len(said)-1][1]), nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // the body is read to its end
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body) // as much as could be read
		return nil, fmt.Errorf("scraping metrics: %s: %s", response.Status, text)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	return parser.TextToMetricFamilies(response.Body)
}
