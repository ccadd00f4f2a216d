#!/usr/bin/env python3
"""Writes jinja_vectors.json: templates, and what Jinja 3.1 makes of them in the
environment that transformers sets up. Needs the jinja2 package; run in place."""
import json
import re
from datetime import datetime

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_run"), [], [], body).set_lineno(lineno)

    def _run(self, caller):
        return caller()


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
env.filters["tojson"] = tojson
env.globals["raise_exception"] = raise_exception
env.globals["strftime_now"] = lambda f: datetime(2026, 3, 7, 15, 4, 5).strftime(f)

VARS = {
    "s": "Hello, World", "u": "naïve 日本 😀", "e": "", "w": "  two  words \n", "q": "it's \"q\" \\ \n\t\x01é",
    "n": 7, "z": 0, "neg": -3, "f": 2.5, "big": 1e16, "small": 1.5e-7, "huge": 123456789012345678901234567890,
    "t": True, "no": False, "nil": None,
    "l": [3, 1, 2], "words": ["b", "A", "c", "a"], "el": [], "mixed": [1, "x", None, True, 2.0, [1], {"a": 1}],
    "d": {"b": 1, "a": [1, 2], "c": {"k": "v"}}, "ed": {}, "m": {"items": 5, "get": "x", "role": "user"},
    "ms": [{"role": "user", "content": "Hi", "n": 2}, {"role": "assistant", "content": "Yo", "n": 1}, {"role": "user", "content": "Bye"}],
    "lines": "a\nb\n\nc", "html": "<a href='x'>&\"</a>",
}

EXPRESSIONS = """
s u e w n z neg f big small huge t no nil l words el mixed d ed q none true nothing
1 -1 +1 1_000 0x1f 0b101 0o17 1e3 1.50 1e16 1e15 1e-4 1e-5 123456789.125 5e-324 1.7976931348623157e308
'a' "b" 'a\\nb' 'it\\'s' "\\u00e9\\x41\\101" 'a' 'b' "\\q"
1+2 1+2*3 (1+2)*3 7//2 -7//2 7%3 -7%3 7%-3 7/2 6/2 2**10 2**-1 2**0.5 7.5//2 -7.5//2 7.5%2 -7.5%2 0.1+0.2 1e308*10 n/f
1+2.0 t+1 t*3 'ab'*3 3*'ab' 'a'*-1 [1]*2 [1,2]+[3] (1,2)+(3,) (1,) () [] {} (1) -2**2 -n*2 - -1 2**3**2
'a'~1~none~true~1.0~[1] 'a'+'b' s~u 1~2 n~'' nothing~'x'
1<2 1<2<3 1<3<2 1==1.0 't'==t t==1 1!=2 'a'<'b' [1,2]<[1,3] (1,2)<(2,) none==none nothing==none nothing==nothing2 d==d l==[3,1,2] l==(3,1,2) ed=={} 1==none
'a' in 'abc' 'a' not in 'abc' 1 in l 9 in l 'b' in d 'x' in nothing e in s 'Hello' in s 'x' in ms[0] 'role' in ms[0] none in [none]
not t not e not not n t and n z or 'x' z and 'x' e or nil or 0 nil or false t and no or 'y' not t == no
'y' if t else 'n' 'y' if z else 'n' 'y' if z 'a' if z else 'b' if z else 'c' ('y' if t else 'n')~'!'
s[0] s[-1] s[99] s[1:3] s[:-1] s[-3:] s[::-1] s[::2] s[5:1:-1] s[:100] s[-100:2] u[0:3] u[2] u[-1] u[::-1] u[6:8] l[0] l[-1] l[5] l[1:] l[::-1] l[-2:] l[::2] l[10:] l[0:2:1] (1,2,3)[1:] s[none:3] s[1:none] el[0] el[1:] s[2:2]
d.b d['b'] d.a[1] d['a'][0] d.c.k d.x d['x'] m.items m['items'] m.get m['get'] m.role ms[0].role ms[-1]['role'] ms.0.role d.a.1 nil.x s.x n.x l.x nothing.x.y d.x.y d.x is defined
s.upper() s.lower() s.title() s.split() s.split(',') s.split('l',1) s.rsplit('l',1) w.split() w.split(None,1) w.rsplit(None,1) w.strip() w.lstrip() w.rstrip() s.strip('Hd') s.lstrip('He') s.rstrip('dl') s.startswith('Hell') s.endswith('ld') s.startswith(('x','H')) s.startswith('W',7) s.replace('l','L') s.replace('l','L',1) s.replace('','-') s.find('o') s.find('o',5) s.find('zz') s.rfind('o') s.index('W') s.count('l') s.count('') s.capitalize() s.swapcase() s.removeprefix('Hello') s.removesuffix('World') s.partition(', ') s.rpartition('o') s.partition('zz') s.zfill(15) '-5'.zfill(4) s.ljust(15,'.') s.rjust(15,'.') s.center(15,'.') s.center(16,'.') s.isalpha() '12'.isdigit() ''.isdigit() ' '.isspace() 'Ab'.isupper() 'AB'.isupper() 'ab'.islower() 'a1'.isalnum() lines.splitlines() lines.splitlines(true) ','.join(words) u.upper() u.title() u.find('日') u.split('日') 'straße'.upper() '{} and {}'.format(1,'b') '{0}{1}{0}'.format('a','b') '{x}'.format(x=1) '{{}}'.format() s.nope s.__class__ s.format_map
d.items() d.keys()|list d.values()|list d.get('b') d.get('x') d.get('x',1) l.index(1) l.count(1) d.items()|list
s|upper s|lower s|title s|capitalize 'foo-bar baz'|title s|length u|length l|length d|length e|length nothing|length l|count s|first s|last l|first l|last el|first u|last d|first
w|trim 'xxaxx'|trim('x') s|replace('l','L') s|replace('l','L',1) n|replace(7,8) s|reverse l|reverse|list u|reverse l|sort words|sort words|sort(case_sensitive=true) words|sort(reverse=true) l|sort(reverse=true) ms|map(attribute='role')|list ms|map(attribute='n')|list ms|map(attribute='n',default=0)|list words|map('upper')|list words|map('replace','a','z')|list ms|selectattr('role','equalto','user')|list|length ms|selectattr('n')|list|length ms|rejectattr('role','equalto','user')|map(attribute='content')|join(',') ms|selectattr('n','defined')|list|length ms|selectattr('role','in',['user','x'])|list|length ms|selectattr('role','eq','user')|map(attribute='content')|join l|select('odd')|list l|reject('odd')|list l|select('gt',1)|list mixed|select|list|length mixed|select('string')|list ms|sort(attribute='content')|map(attribute='content')|join(' ') ms|map(attribute='role')|unique|join(',') words|unique|list ms|groupby('role')|list|length
l|join l|join('-') ms|join(', ',attribute='role') el|join(',') mixed|join('|') s|list d|list u|list d|items|list nothing|items|list d|dictsort d|dictsort(reverse=true) d|dictsort(by='key')
l|sum l|max l|min words|max words|min el|max ms|map(attribute='n',default=5)|sum ms|sum(attribute='x',start=1) (ms|selectattr('n','defined')|sum(attribute='n'))
neg|abs f|abs -2.5|abs 2.5|round 3.5|round 2.567|round(2) 2.567|round(1,'floor') 2.51|round(0,'ceil') 5|round 1234|round(-2) 2.5|round|int '12'|int 'x'|int 'x'|int(5) '12.7'|int 3.9|int -3.9|int '0x1f'|int(0,16) t|int none|int(3) '2.5'|float 'x'|float 'x'|float(1.5) 7|float ' 3 '|int '1_0'|int 'inf'|float
nothing|default('x') e|default('x') e|default('x',true) nil|default('x') nil|default('x',boolean=true) d.x|default(1) nothing|d nothing|default
n|string l|string s|safe html|e html|escape none|string f|string d|string mixed|string q|string [q]|string ["it's"]|string ['"']|string [u,'\\x7f']|string (1,)|string ['a','b']|string [1.0,1e20,true,none]|string
d|tojson mixed|tojson q|tojson u|tojson [1.0,1e16,1e-7,none,true]|tojson d|tojson(indent=2) d|tojson(indent=4) ed|tojson(indent=2) el|tojson(indent=2) [[],{}]|tojson(indent=1) u|tojson(ensure_ascii=true) {'b':1,'a':2}|tojson(sort_keys=true) d|tojson(separators=(',',':')) huge|tojson big|tojson html|tojson {1:2,none:3,true:4,1.5:6}|tojson d|tojson(indent=0) d|tojson(indent='\\t') nothing|tojson (1,2)|tojson s|tojson n|tojson d.a|tojson|length
lines|indent lines|indent(2) lines|indent(2,true) lines|indent(2,first=true,blank=true) lines|indent('> ') 'a\\n'|indent ''|indent
s|truncate(8) s|truncate(8,true) s|truncate(8,true,'') s|truncate(5,false,'..',0) s|wordcount u|wordcount l|batch(2)|list l|batch(2,'x')|list l|slice(2)|list l|slice(2,'x')|list s|center(20) '%s-%s'|format('a',1) '%d'|format(3.7)
n is defined nothing is defined nothing is undefined n is not defined nil is none n is none n is number f is number t is number s is number n is integer t is integer f is float n is float s is string n is string l is string d is mapping l is mapping l is iterable s is iterable n is iterable d is iterable nothing is iterable l is sequence d is sequence s is sequence n is sequence t is boolean n is boolean t is true t is false no is false n is true 3 is odd 4 is even 3 is even 6 is divisibleby 3 6 is divisibleby(4) s is lower 'ab' is lower 'AB' is upper n is eq 7 n is equalto(7) n is ne 7 n is gt 3 n is lt 3 n is ge 7 n is in [7] n is in(l) n is sameas 7 range is callable s is callable s is not string not s is string n is defined and t n is odd or no 'x' if n is odd else 'y' s is eq('x') 1 is number and 2 is number
'%s' % s '%d items' % 3 '%5d|%-5d|%05d' % (1,2,3) '%.2f' % 3.14159 '%s %s' % ('a',1) '%(a)s' % {'a':5} '%%' % () '%x %X %o' % (255,255,8) '%e' % 12345.678 '%g' % 0.0001 '%g' % 1234567.0 '%r' % 'a' '%5s|%-5s|' % ('a','b') '%.3s' % 'abcdef' '%c' % 'x' '%+d' % 5 '%s' % [1] '%s' % none '%d' % 3.99
range(3)|list range(1,4)|list range(5,0,-2)|list range(0)|list range(3)|length dict(a=1,b=2) dict(d,x=1)|length namespace(a=1).a
strftime_now('%Y-%m-%d') strftime_now('%d %B %Y') strftime_now('%d %b %y %A %a %H:%M:%S %I %p %j %% %-d')
-1|abs (-1)|abs -n|abs -neg|abs 1+2|string ('a'~'b')|upper 'a'~'b'|upper not 1 in l not (1 in l) 1 + 1 == 2 and 'a' ~ 'b' == 'ab' [1,2,3][1] {'a':1}.a {'a':1}['a'] {'a':{'b':[1,2]}}.a.b[1] (1,2)[0] 'abc'[1] 'abc'.upper()[0] [x]|length [[1,2],[3]]|map('first')|list [1,2,]|length {'a':1,}|length
1/0 1//0 1%0 'a'+1 1+'a' 1<'a' none<1 n() s.nope() nothing() nothing+1 nothing.x nothing[0] nil[0] l['a'] 5 in n 'a' in 5 1 in 'a' s.index('zz') s.split('') l|map(attribute='x')|list [1,'a']|sort ''|first none|length n|length n|list none|join l.append(1) d.update({}) d.pop('b') s.join([1]) {[1]:2} range(1,2,0) range(1000000) 'abc'.format(1)|upper '{}'.format() '%d' % 'x' '%s %s' % 'a' '%s' % (1,2) raise_exception('no') 2**'a' -'a' nothing|tojson|length
"""

# Whole templates; %% splits.
TEMPLATES = r"""
a{{ 1 }}b%%a {{- 1 -}} b%%a
  {%- if t -%}  x  {%- endif -%}
b%%  {% if t %}
  x
  {% endif %}
y%%  {%+ if t %}x{% endif +%}
y%%{# c #}a{#- c -#} b%%a
  {# c #}
b%%a {{ 'x' }}
b%%{% raw %}{{ x }} {% if %}{% endraw %}!%%{%- raw -%} {{ x }} {%- endraw -%} !%%  {% raw %}
x{% endraw %}
y%%
{% if z %}a{% elif n == 7 %}b{% else %}c{% endif %}%%{% if z %}a{% elif e %}b{% endif %}|%%{% for x in l %}{{ x }},{% endfor %}%%{% for x in l %}
{{ x }}
{% endfor %}%%{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }} {% endfor %}%%{% for x in el %}{{ x }}{% else %}none{% endfor %}%%{% for x in l if x > 1 %}{{ loop.index }}{{ x }} {% endfor %}%%{% for x in l if x > 9 %}{{ x }}{% else %}none{% endfor %}%%{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}%%{% for k, v in d|dictsort %}{{ k }}{% endfor %}%%{% for k in d %}{{ k }}{% endfor %}%%{% for c in 'añb' %}[{{ c }}]{% endfor %}%%{% for x in nothing %}a{% else %}b{% endfor %}%%{% for x in nil %}a{% endfor %}%%{% for x in n %}a{% endfor %}%%{% for (a, b) in [(1, 2), (3, 4)] %}{{ a }}{{ b }}{% endfor %}%%{% for a, b in [1] %}{% endfor %}%%{% for x in l %}{% for y in l %}{{ loop.index }}{{ x }}{{ y }} {% endfor %}{{ loop.index }};{% endfor %}%%{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}%%{% for x in l %}{{ loop.cycle('a', 'b') }}{% endfor %}%%{% for x in [1,1,2] %}{{ loop.changed(x) }} {% endfor %}%%{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}%%{% for x in l %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}%%{% for x in [1, [2, [3]]] recursive %}{% if x is iterable %}({{ loop(x) }}){% else %}{{ x }}{% endif %}{% endfor %}%%{% for x in range(3) %}{{ x }}{% endfor %}%%{{ loop }}%%{% for m in ms[::-1] %}{{ m.role }}{{ loop.index0 }} {% endfor %}%%{% for x in l %}{% set y = x %}{% endfor %}{{ y }}%%{% set y = 1 %}{% for x in l %}{% set y = x %}{{ y }}{% endfor %}{{ y }}%%{% set y = 1 %}{% for x in l %}{{ y }}{% set y = x %}{% endfor %}%%{% set ns = namespace(i=0) %}{% for x in l %}{% set ns.i = ns.i + x %}{% endfor %}{{ ns.i }}%%{% set ns = namespace() %}{{ ns.x is defined }}{% set ns.x = 1 %}{{ ns.x }}%%{% set d.x = 1 %}%%{% set a, b = 1, 2 %}{{ a }}{{ b }}%%{% set a = 1, 2 %}{{ a }}%%{% set x %}a{{ n }}b{% endset %}{{ x }}{{ x|length }}%%{% set x | upper | trim %} a {% endset %}[{{ x }}]%%{% set x = 5 %}{% if t %}{% set x = 6 %}{% endif %}{{ x }}%%{% if t %}{% set x = 6 %}{% endif %}{{ x }}%%{% if not x is defined %}{% set x = 3 %}{% endif %}{{ x }}%%{% macro f(a, b=2, c='x') %}{{ a }}-{{ b }}-{{ c }}{% endmacro %}{{ f(1) }} {{ f(1, c=3) }} {{ f(b=5, a=4) }} {{ f() }}%%{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, 2) }}%%{% macro f(a) %}{{ a }}{% endmacro %}{{ f(x=2) }}%%{% macro f() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, x=3) }}%%{% macro f(x) %}{% if x > 0 %}{{ x }}{{ f(x - 1) }}{% endif %}{% endmacro %}{{ f(3) }}%%{% macro f(x) %}[{{ caller(x) }}]{% endmacro %}{% call(y) f(5) %}got {{ y }}{% endcall %}%%{% macro f() %}[{{ caller() }}]{% endmacro %}{% call f() %}hi{% endcall %}%%{% set g = 1 %}{% macro f() %}{{ g }}{{ n }}{% endmacro %}{% set g = 2 %}{{ f() }}%%{% macro f() %}{% set q = 1 %}{% endmacro %}{{ f() }}{{ q }}%%{% macro f(x) -%}
  {{ x }}
{%- endmacro %}
[{{ f('a') }}]%%{{ f is defined }}{% macro f() %}{% endmacro %}{{ f is callable }}%%{% filter upper %}a{{ s }}{% endfilter %}%%{% filter replace('a', 'b') | upper %}aXa{% endfilter %}%%{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a }}%%{% block x %}in{% endblock x %}out%%{% generation %}a{{ n }}{% endgeneration %}b%%{%- for m in ms %}
    {%- if m.role == 'user' %}
        {{- '<u>' + m['content'] + '</u>' }}
    {%- else %}
        {{- '<a>' ~ m.content ~ '</a>\n' }}
    {%- endif %}
{%- endfor %}
%%{{ {'a': {'b': 1}} }}%%{{ {'a': 1}.a }}}%%{{ "%}" }}{{ '}}' }}%%{{ s }}{{ ' ' if n }}{{ n, z }}%%{% set x = 'a' 'b' %}{{ x }}%%{% if n is defined and n %}y{% endif %}%%{{ raise_exception('Stop: ' ~ n) }}%%{% if 'user' not in ms|map(attribute='role') %}a{% else %}b{% endif %}%%{% set last = ms[-1] %}{{ last.role }}{{ (ms|last).content }}%%{{ ms | selectattr("role", "equalto", "user") | list | length }}%%{% for m in ms | rejectattr('role', 'in', ['user']) %}{{ m.content }}{% endfor %}%%{% set l2 = [] %}{% set l2 = l2 + ['x'] %}{{ l2 }}%%{% for g in ms|groupby('role') %}{{ g.grouper }}:{{ g.list|length }} {% endfor %}%%{% for k, g in ms|groupby('role') %}{{ k }}:{{ g|length }} {% endfor %}%%{% set j = joiner('|') %}{{ j() }}a{{ j() }}b{{ j() }}%%a
%%a

%%

a%%{{ 'a
b' }}%%{{ x.y.z is defined }}%%{{ nothing is defined and nothing.y }}%%{% set m2 = dict(ms[0], content='new') %}{{ m2.content }}{{ m2.role }}%%{{- s -}}
  x%%{% if t -%}
 a
{%- endif %}
b%%x {%- set a = 1 -%} y%%{{ "a" -}}   {{- "b" }}%%{% for x in l -%}
  {{ x }}
{%- endfor %}%%{{ '\n' }}{{ '\\n' }}{{ "\"" }}%%{% set x = namespace(a=[1]) %}{% set x.a = x.a + [2] %}{{ x.a }}%%{% import 'x' as y %}%%{% include 'x' %}%%{{ x | nofilter }}%%{{ x is notest }}%%{% nosuch %}%%{{ 1 +%}}%%{{ (1 }}%%{% if %}{% endif %}%%{% for x in l %}%%{% endfor %}%%{{ 'a }}%%{{ a b }}%%{{ }}%%{% set 1 = 2 %}%%{% set true = 2 %}%%{{ a.b. }}%%{{ [1, }}%%{# open%%{% raw %}x%%{{ {'a' 1} }}%%{{ f(a=1, 2) }}%%{{ x is a is b }}%%{% break %}%%{{ 1 if }}%%{{ @ }}
"""


def run(src):
    case = {"template": src}
    try:
        case["expected"] = env.from_string(src).render(**VARS)
    except jinja2.exceptions.TemplateSyntaxError:
        case["syntax"] = True
    except Exception as e:  # whatever Python raises
        case["error"] = f"{type(e).__name__}: {e}"
    return case


def expressions():
    """Expressions are separated by spaces that stand outside brackets and quotes;
    one that needs such a space is joined by the operators around it."""
    words = ["not in"] + "+ - * / // % ** ~ < <= == != > >= and or not in is if else".split()
    for line in EXPRESSIONS.strip().splitlines():
        parts, depth, quote, cur = [], 0, "", ""
        i = 0
        while i < len(line):
            c = line[i]
            if quote:
                if c == "\\":
                    cur += c
                    i += 1
                    c = line[i]
                elif c == quote:
                    quote = ""
            elif c in "'\"":
                quote = c
            elif c in "([{":
                depth += 1
            elif c in ")]}":
                depth -= 1
            if c == " " and depth == 0 and not quote:
                parts.append(cur)
                cur = ""
            else:
                cur += c
            i += 1
        parts.append(cur)
        for k in range(len(parts) - 1, 0, -1):
            if parts[k - 1:k + 1] == ["not", "in"]:
                parts[k - 1:k + 1] = ["not in"]
        out = []
        join_next = False
        for p in parts:
            binary = p in words
            if out and (join_next or binary and p != "not" or p == "not" and out[-1].split(" ")[-1] in words):
                out[-1] += " " + p
            else:
                out.append(p)
            join_next = binary
            # Tests with an argument: is in [..], is eq 7, is divisibleby 3
            if out[-1].split(" ")[-2:-1] in (["is"], ["not"]) and p in ("divisibleby", "eq", "ne", "gt", "lt", "ge", "sameas", "in"):
                join_next = True
        yield from out


cases = [run("{{ " + x + " }}") for x in expressions()]
parts = TEMPLATES.strip("\n").split("%%")
cases += [run(x) for x in parts]
cases = [c for c in cases if not re.search(r"object at 0x|^<(function|built-in|class)|^dict_", c.get("expected", ""))]
with open("jinja_vectors.json", "w") as f:
    f.write('{"about": "made by jinja_vectors.py with jinja2 %s", "vars": %s,\n"cases": [\n' % (jinja2.__version__, json.dumps(VARS)))
    f.write(",\n".join(json.dumps(c, ensure_ascii=False) for c in cases))
    f.write("\n]}\n")
print(len(cases), "cases,", sum("error" in c for c in cases), "errors,", sum("syntax" in c for c in cases), "syntax errors")
