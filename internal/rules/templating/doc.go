// Package templating evaluates the templates in the Helm values of a Bundle for one cluster. Bundles are not trusted:
// steps, output, nesting and the growth of YAML aliases are bounded before anything is allocated.
package templating
