package helmvalues_test

import (
	"fmt"

	"github.com/fleet-hub/fleet/internal/helmvalues"
)

func ExampleMerge() {
	chart := map[string]any{"replicas": 1, "image": map[string]any{"name": "nginx", "tag": "1.27"}, "ports": []any{80, 443}}
	target := map[string]any{"image": map[string]any{"tag": "1.29"}, "ports": []any{8080}}
	fmt.Println(helmvalues.Merge(chart, target))
	// Output: map[image:map[name:nginx tag:1.29] ports:[8080] replicas:1]
}
