package model

import "hearth/kernels"

// description is one architecture as data. The builder (build.go) knows only
// the transformer block that all of them share: norm, attention, residual,
// norm, gated feed-forward, residual; everything a family does differently is a
// field here or a row of its tensor list.
type description struct {
	name  string // Config.Architecture; also general.architecture of a GGUF file
	class string // the class in "architectures" of config.json

	// defaults is what the class takes for a field that config.json leaves out.
	defaults string

	interleaved     bool           // GGUF files hold q and k rows for pairs (2i, 2i+1)
	activation      kernels.OpKind // OpSiluMul or OpGeluMul
	activationNames []string       // config.json hidden_act
	shiftedNorms    bool           // safetensors hold norm weights minus one
	scaledEmbedding bool           // embeddings are multiplied by sqrt(hidden)
	windows         windowRule
	qkvBias         biasRule
	otherBias       biasRule // of the output projection and the feed-forward
	localRope       bool     // windowed layers have a rotary base of their own
	tensors         []spec   // of a layer
}

// windowRule says how config.json gives a layer its sliding window.
type windowRule uint8

const (
	windowNever   windowRule = iota // a sliding_window is refused
	windowAll                       // every layer, unless null
	windowUpper                     // with use_sliding_window, from layer max_window_layers on
	windowPattern                   // all but every sliding_window_pattern-th layer
)

// biasRule says when a projection has a bias.
type biasRule uint8

const (
	biasNever biasRule = iota
	biasAlways
	biasStated // config.json: attention_bias, mlp_bias; GGUF: where the tensors are
)

// dim is a tensor dimension, resolved from the hyperparameters.
type dim uint8

const (
	dimOne    dim = iota
	dimHidden     // width of the residual stream
	dimQuery      // heads × head size
	dimKV         // kv heads × head size
	dimQKV        // query, keys and values stacked
	dimFFN        // feed-forward width
	dimFFN2       // gate and up stacked
	dimHead       // head size
	dimVocab
)

// slot is the place of a tensor in the block.
type slot uint8

const (
	slotEmbed slot = iota
	slotOutNorm
	slotOutput
	slotAttnNorm
	slotQ
	slotK
	slotV
	slotQKV
	slotO
	slotQBias
	slotKBias
	slotVBias
	slotOBias
	slotQNorm
	slotKNorm
	slotPostAttnNorm
	slotFFNNorm
	slotGate
	slotUp
	slotGateUp
	slotDown
	slotGateBias
	slotUpBias
	slotDownBias
	slotPostFFNNorm
	slotCount
)

// condition says when a tensor of the list exists.
type condition uint8

const (
	always condition = iota
	withQKVBias
	withOutBias
	withMLPBias
	whenUntied
)

// spec is one tensor: its place, its two names (%d is the layer) and its shape.
type spec struct {
	slot       slot
	gguf, hf   string
	rows, cols dim
	when       condition
}

// isVector tells norms and biases from matrices.
func (s *spec) isVector() bool { return s.rows == dimOne }

// isNorm tells norm weights, which some families store shifted.
func (s *spec) isNorm() bool { return s.isVector() && s.when == always }

var topTensors = []spec{
	{slotEmbed, "token_embd.weight", "model.embed_tokens.weight", dimVocab, dimHidden, always},
	{slotOutNorm, "output_norm.weight", "model.norm.weight", dimOne, dimHidden, always},
	{slotOutput, "output.weight", "lm_head.weight", dimVocab, dimHidden, whenUntied},
}

var preNorms = []spec{
	{slotAttnNorm, "blk.%d.attn_norm.weight", "model.layers.%d.input_layernorm.weight", dimOne, dimHidden, always},
	{slotFFNNorm, "blk.%d.ffn_norm.weight", "model.layers.%d.post_attention_layernorm.weight", dimOne, dimHidden, always},
}

var sandwichNorms = []spec{
	{slotAttnNorm, "blk.%d.attn_norm.weight", "model.layers.%d.input_layernorm.weight", dimOne, dimHidden, always},
	{slotPostAttnNorm, "blk.%d.post_attention_norm.weight", "model.layers.%d.post_attention_layernorm.weight", dimOne, dimHidden, always},
	{slotFFNNorm, "blk.%d.ffn_norm.weight", "model.layers.%d.pre_feedforward_layernorm.weight", dimOne, dimHidden, always},
	{slotPostFFNNorm, "blk.%d.post_ffw_norm.weight", "model.layers.%d.post_feedforward_layernorm.weight", dimOne, dimHidden, always},
}

var queryKeyNorms = []spec{
	{slotQNorm, "blk.%d.attn_q_norm.weight", "model.layers.%d.self_attn.q_norm.weight", dimOne, dimHead, always},
	{slotKNorm, "blk.%d.attn_k_norm.weight", "model.layers.%d.self_attn.k_norm.weight", dimOne, dimHead, always},
}

var projections = []spec{
	{slotQ, "blk.%d.attn_q.weight", "model.layers.%d.self_attn.q_proj.weight", dimQuery, dimHidden, always},
	{slotK, "blk.%d.attn_k.weight", "model.layers.%d.self_attn.k_proj.weight", dimKV, dimHidden, always},
	{slotV, "blk.%d.attn_v.weight", "model.layers.%d.self_attn.v_proj.weight", dimKV, dimHidden, always},
	{slotO, "blk.%d.attn_output.weight", "model.layers.%d.self_attn.o_proj.weight", dimHidden, dimQuery, always},
	{slotQBias, "blk.%d.attn_q.bias", "model.layers.%d.self_attn.q_proj.bias", dimOne, dimQuery, withQKVBias},
	{slotKBias, "blk.%d.attn_k.bias", "model.layers.%d.self_attn.k_proj.bias", dimOne, dimKV, withQKVBias},
	{slotVBias, "blk.%d.attn_v.bias", "model.layers.%d.self_attn.v_proj.bias", dimOne, dimKV, withQKVBias},
	{slotOBias, "blk.%d.attn_output.bias", "model.layers.%d.self_attn.o_proj.bias", dimOne, dimHidden, withOutBias},
	{slotGate, "blk.%d.ffn_gate.weight", "model.layers.%d.mlp.gate_proj.weight", dimFFN, dimHidden, always},
	{slotUp, "blk.%d.ffn_up.weight", "model.layers.%d.mlp.up_proj.weight", dimFFN, dimHidden, always},
	{slotDown, "blk.%d.ffn_down.weight", "model.layers.%d.mlp.down_proj.weight", dimHidden, dimFFN, always},
	{slotGateBias, "blk.%d.ffn_gate.bias", "model.layers.%d.mlp.gate_proj.bias", dimOne, dimFFN, withMLPBias},
	{slotUpBias, "blk.%d.ffn_up.bias", "model.layers.%d.mlp.up_proj.bias", dimOne, dimFFN, withMLPBias},
	{slotDownBias, "blk.%d.ffn_down.bias", "model.layers.%d.mlp.down_proj.bias", dimOne, dimHidden, withMLPBias},
}

// fusedProjections stack query, keys and values, and gate and up, by rows.
var fusedProjections = []spec{
	{slotQKV, "blk.%d.attn_qkv.weight", "model.layers.%d.self_attn.qkv_proj.weight", dimQKV, dimHidden, always},
	{slotO, "blk.%d.attn_output.weight", "model.layers.%d.self_attn.o_proj.weight", dimHidden, dimQuery, always},
	{slotGateUp, "blk.%d.ffn_up.weight", "model.layers.%d.mlp.gate_up_proj.weight", dimFFN2, dimHidden, always},
	{slotDown, "blk.%d.ffn_down.weight", "model.layers.%d.mlp.down_proj.weight", dimHidden, dimFFN, always},
}

func specs(lists ...[]spec) []spec {
	var all []spec
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

var silu = []string{"silu", "swish"}

// descriptions of all architectures. The defaults are those of the classes in
// transformers 5; only fields that published configurations leave out matter.
var descriptions = []description{
	{
		name: "llama", class: "LlamaForCausalLM",
		defaults: `{"hidden_act":"silu","rms_norm_eps":1e-6,"rope_theta":10000,"max_position_embeddings":2048,
			"tie_word_embeddings":false,"attention_bias":false,"mlp_bias":false,"bos_token_id":1,"eos_token_id":2}`,
		interleaved: true, activation: kernels.OpSiluMul, activationNames: silu,
		qkvBias: biasStated, otherBias: biasStated,
		tensors: specs(preNorms, projections),
	},
	{
		name: "llama", class: "MistralForCausalLM",
		defaults: `{"hidden_act":"silu","rms_norm_eps":1e-6,"rope_theta":10000,"max_position_embeddings":131072,
			"num_key_value_heads":8,"sliding_window":4096,"tie_word_embeddings":false,"bos_token_id":1,"eos_token_id":2}`,
		interleaved: true, activation: kernels.OpSiluMul, activationNames: silu, windows: windowAll,
		tensors: specs(preNorms, projections),
	},
	{
		name: "qwen2", class: "Qwen2ForCausalLM",
		defaults: `{"hidden_act":"silu","rms_norm_eps":1e-6,"rope_theta":10000,"max_position_embeddings":32768,
			"num_key_value_heads":32,"use_sliding_window":false,"sliding_window":4096,"max_window_layers":28,"tie_word_embeddings":false}`,
		activation: kernels.OpSiluMul, activationNames: silu, windows: windowUpper, qkvBias: biasAlways,
		tensors: specs(preNorms, projections),
	},
	{
		name: "qwen3", class: "Qwen3ForCausalLM",
		defaults: `{"hidden_act":"silu","rms_norm_eps":1e-6,"rope_theta":10000,"max_position_embeddings":32768,"head_dim":128,
			"num_key_value_heads":32,"use_sliding_window":false,"sliding_window":4096,"max_window_layers":28,
			"attention_bias":false,"tie_word_embeddings":false}`,
		activation: kernels.OpSiluMul, activationNames: silu, windows: windowUpper, qkvBias: biasStated, otherBias: biasStated,
		tensors: specs(preNorms, queryKeyNorms, projections),
	},
	{
		name: "gemma3", class: "Gemma3ForCausalLM",
		defaults: `{"hidden_activation":"gelu_pytorch_tanh","rms_norm_eps":1e-6,"rope_theta":1000000,"rope_local_base_freq":10000,
			"max_position_embeddings":131072,"vocab_size":262208,"hidden_size":2304,"intermediate_size":9216,"num_hidden_layers":26,
			"num_attention_heads":8,"num_key_value_heads":4,"head_dim":256,"query_pre_attn_scalar":256,"sliding_window":4096,
			"sliding_window_pattern":6,"attention_bias":false,"tie_word_embeddings":true,"bos_token_id":2,"eos_token_id":1}`,
		activation: kernels.OpGeluMul, activationNames: []string{"gelu_pytorch_tanh"},
		shiftedNorms: true, scaledEmbedding: true, windows: windowPattern, localRope: true, qkvBias: biasStated, otherBias: biasStated,
		tensors: specs(sandwichNorms, queryKeyNorms, projections),
	},
	{
		name: "phi3", class: "Phi3ForCausalLM",
		defaults: `{"hidden_act":"silu","rms_norm_eps":1e-5,"rope_theta":10000,"max_position_embeddings":4096,
			"original_max_position_embeddings":4096,"sliding_window":null,"tie_word_embeddings":false,
			"bos_token_id":1,"eos_token_id":32000}`,
		activation: kernels.OpSiluMul, activationNames: silu, windows: windowAll,
		tensors: specs(preNorms, fusedProjections),
	},
}

// describe finds an architecture by its GGUF name or its class; of several with
// one GGUF name the first.
func describe(gguf, class string) *description {
	for i := range descriptions {
		if d := &descriptions[i]; gguf != "" && d.name == gguf || class != "" && d.class == class {
			return d
		}
	}
	return nil
}

// supported lists the names for error texts.
func supported(byClass bool) []string {
	var names []string
	for i := range descriptions {
		n := descriptions[i].name
		if byClass {
			n = descriptions[i].class
		}
		if len(names) == 0 || names[len(names)-1] != n {
			names = append(names, n)
		}
	}
	return names
}
