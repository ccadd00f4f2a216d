// Package chattmpl runs a model's own chat template.
package chattmpl
