package policy

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schemaCache keeps compiled schemas: applications send the same ones with every
// request.
type schemaCache struct {
	mu   sync.Mutex
	seen map[[32]byte]*compiled
}

type compiled struct {
	schema *jsonschema.Schema
	err    error
}

// maxSchemas bounds the cache; it is emptied when it is full.
const maxSchemas = 512

func newSchemaCache() *schemaCache { return &schemaCache{seen: map[[32]byte]*compiled{}} }

// get compiles a schema, or finds it. References that lead out of it are not
// followed.
func (c *schemaCache) get(raw []byte) (*jsonschema.Schema, error) {
	key := sha256.Sum256(raw)
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.seen[key]; s != nil {
		return s.schema, s.err
	}
	s := &compiled{}
	s.schema, s.err = compileSchema(raw)
	if len(c.seen) >= maxSchemas {
		clear(c.seen)
	}
	c.seen[key] = s
	return s.schema, s.err
}

// noLoader refuses to fetch what a schema refers to.
type noLoader struct{}

func (noLoader) Load(string) (any, error) {
	return nil, errors.New("a reference out of the schema is not followed")
}

var errSchema = errors.New("it is no JSON Schema that is understood here")

// compileSchema gives errors in words that repeat nothing of the schema.
func compileSchema(raw []byte) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, errors.New("it is no JSON")
	}
	const name = "hearth:///schema.json"
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	if err := c.AddResource(name, doc); err != nil {
		return nil, errSchema
	}
	s, err := c.Compile(name)
	if err != nil {
		return nil, errSchema
	}
	return s, nil
}

// matches says whether text is JSON that keeps to a schema; nil: to be an object.
func matches(s *jsonschema.Schema, text string) bool {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(text)))
	if err != nil {
		return false
	}
	if s == nil {
		_, object := v.(map[string]any)
		return object
	}
	return s.Validate(v) == nil
}
