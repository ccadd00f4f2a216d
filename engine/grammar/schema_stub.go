package grammar

import "encoding/json"

func (bd *builder) schema(s json.RawMessage, o SchemaOptions) (*ir, error) {
	return nil, faultf("soon")
}
func Validate(schema []byte, text []byte) error { return nil }
