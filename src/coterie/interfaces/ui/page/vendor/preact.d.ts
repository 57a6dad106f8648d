export type Key = string | number;
export type Child = any;
export interface VNode { type: any; props: any; key: any; }
export interface Context<T> { Provider: (props: { value: T; children?: Child }) => VNode; }
export function h(type: any, props: any, ...children: Child[]): VNode;
export function render(node: VNode, parent: Element): void;
export function createContext<T>(value: T): Context<T>;
export const Fragment: any;
export class Component<P = any, S = any> {
  props: P;
  state: S;
  constructor(props: P);
  setState(state: Partial<S>): void;
  forceUpdate(): void;
}
